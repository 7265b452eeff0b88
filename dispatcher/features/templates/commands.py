"""The `templates` commands."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Raw, structs

from dispatcher.base.errors import TemplateError
from dispatcher.cli.arguments import object_text
from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.commands import Version, command, group, version_option
from dispatcher.cli.options import name_given, second
from dispatcher.cli.terminal.console import plain
from dispatcher.cli.terminal.output import cell, show_list, tell
from dispatcher.features.templates import endpoints
from dispatcher.features.templates.drafts import body_of, difference, library, readable, readable_version, save
from dispatcher.features.templates.files import SUFFIX, read, text
from dispatcher.features.templates.models import Preview, PublishedTemplate, Template, TemplateVersion, WholeTemplate
from dispatcher.features.templates.sync_command import sync
from dispatcher.http.problems import Problem

VERSIONS_SHOWN = 20

app = group(help="Save, look at and publish templates.")
command(app, "sync", acts=True)(sync)

Name = Annotated[str, typer.Argument(metavar="NAME", callback=name_given)]
FileOf = Annotated[Path, typer.Argument(metavar="FILE", help=f"A template, such as welcome{SUFFIX}.")]
InsteadFile = Annotated[Path | None, typer.Option("--file", help="A file in place of a version.")]


@command(app, "put", acts=True)
def put(
    caller: Caller,
    file: FileOf,
    *,
    publish: Annotated[bool, typer.Option("--publish", help="Publish it as well.")] = False,
) -> None:
    """Save a template from a file as a new version, unless its content equals the newest one.

    If it has faults, all are listed with their lines, and nothing is saved.
    """
    written = read(file, str(file), file.name.removesuffix(SUFFIX))
    (saved,) = save(caller, [written], publish=publish).templates
    found = _get(caller, saved.name, saved.version)
    what = "is saved" if saved.created else "says this already"
    state = ", and published" if found.published == found.version else ""
    record = structs.asdict(found) | {"created": saved.created}
    tell(caller, record, f"template {found.name}: version {found.version} {what}{state}")


@command(app, "list", limit=100)
def list_(caller: Caller) -> None:
    """List templates by name."""
    columns = ("name", "channel", "locales", "newest", "published", "by", "at")
    show_list(caller, caller.listed(endpoints.list_templates), columns, _cells, "There are no templates.")


def _cells(row: Template) -> tuple[object, ...]:
    published = row.published or "no"
    channel = row.channel or "partial"
    return row.name, channel, cell(row.locales), row.latest, published, row.author, second(row.created_at)


@command(app, "show")
def show(
    caller: Caller,
    name: Name,
    *,
    version: Version = None,
    source: Annotated[bool, typer.Option("--source", help="Only its content, as a template file.")] = False,
) -> None:
    """Show a version: its content, the variables that it reads, and the history of versions."""
    found = _get(caller, name, version)
    if source:
        caller.output.content(text(found.draft))
        return
    history = caller.ask(endpoints.list_template_versions, name, limit=VERSIONS_SHOWN).versions
    if caller.output.as_json:
        caller.output.record(structs.asdict(found) | {"versions": history})
    else:
        _show_all(caller, found, history)


def _show_all(caller: Caller, found: WholeTemplate, history: Sequence[TemplateVersion]) -> None:
    facts = (
        ("channel", found.channel or "partial"),
        ("version", f"{found.version} of {found.latest}, by {found.author}, {second(found.created_at)}"),
        ("published", "no version" if found.published is None else f"version {found.published}"),
        ("locales", ", ".join(found.locales)),
        ("rights", ", ".join(found.rights) or "none"),
        ("reads", ", ".join(found.variables) or "nothing"),
    )
    caller.output.table(("template", found.name), facts)
    caller.output.text()
    caller.output.content(readable_version(found))
    show_list(caller, history, ("version", "by", "at", "published last"), _of_version, "")


def _of_version(row: TemplateVersion) -> tuple[object, ...]:
    published = "" if row.published_at is None else f"{second(row.published_at)} by {row.published_by}"
    return row.number, row.author, second(row.created_at), published


@command(app, "publish", acts=True)
def publish(caller: Caller, name: Name, *, version: Version = None) -> None:
    """Publish a version, also an older one: from now on new deliveries with this template have it.

    Deliveries that exist keep their version.
    """
    with caller.hinted(endpoints.list_templates, name):
        done: PublishedTemplate = caller.ask(endpoints.publish_template, name, body={"version": version})
    before = "" if done.before in (None, done.published) else f"; version {done.before} was"
    already = " already" if done.before == done.published else ""
    tell(caller, done, f"template {name}: version {done.published} is published{already}{before}")


@command(app, "diff")
def diff(
    caller: Caller,
    name: Name,
    *,
    old: Annotated[int | None, version_option("--from", "From which version; the published one.")] = None,
    new: Annotated[int | None, version_option("--to", "To which version; the newest.")] = None,
    file: InsteadFile = None,
) -> None:
    """Show what differs between two versions, or between a version and a file."""
    if file is not None and new is not None:
        raise typer.BadParameter("cannot be combined with --to", param_hint="--file")
    before = _get(caller, name, old)
    if old is None and before.published is not None:
        before = _get(caller, name, before.published)
    if file is None:
        after = _get(caller, name, new)
        right, label = readable_version(after), f"{name} version {after.version}"
    else:
        right, label = _read(caller, file, name), str(file)
    words = difference(readable_version(before), right, f"{name} version {before.version}", label)
    if words and not caller.output.as_json:
        caller.output.content(words)
        return
    record = {"name": name, "from": before.version, "to": label, "differs": bool(words), "diff": words}
    tell(caller, record, f"{name} version {before.version} and {label} say the same")


def _read(caller: Caller, file: Path, name: str) -> str:
    """The text of a sound file for comparison."""
    written = read(file, str(file), name)
    save(caller, [written], check=True)
    return readable(written.draft, library(caller, [written.draft], own_partials=False))


def _get(caller: Caller, name: str, version: int | None) -> WholeTemplate:
    with caller.hinted(endpoints.list_templates, name):
        found: WholeTemplate = caller.ask(endpoints.get_template, name, version=version)
    return found


@command(app, "preview")
def preview(
    caller: Caller,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Which stored template.")] = None,
    *,
    file: Annotated[Path | None, typer.Option(help="A file that is not saved yet, in place of NAME.")] = None,
    version: Version = None,
    locale: Annotated[str | None, typer.Option(help="Of the recipient; the nearest of the template is used.")] = None,
    variables: Annotated[
        str | None,
        typer.Option(metavar="FILE|JSON", help="Variables, as an object; - is the standard input. Samples without it."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write the html part there, for a browser.")
    ] = None,
) -> None:
    """Render a template, and write nothing into the database.

    Sample variables fit to how the template uses them; with given variables a missing one is an error.
    """
    if (name is None) == (file is None):
        raise typer.BadParameter("name a stored template, or a file with --file", param_hint="NAME")
    if file is not None and version is not None:
        raise typer.BadParameter("cannot be combined with --file", param_hint="--version")
    given = None if variables is None else Raw(object_text("--variables", variables).encode())
    body: dict[str, object] = {"version": version, "locale": locale, "variables": given}
    if file is not None:
        written = read(file, str(file), file.name.removesuffix(SUFFIX))
        save(caller, [written], check=True)
        name, body["draft"] = written.draft.name, body_of(written.draft)
    shown = _preview(caller, name or "", body)
    if html is not None:
        _write_html(html, shown.parts)
    _show_preview(caller, shown)


def _preview(caller: Caller, name: str, body: Mapping[str, object]) -> Preview:
    try:
        with caller.hinted(endpoints.list_templates, name):
            shown: Preview = caller.ask(endpoints.preview_template, name, body=body)
    except Problem as problem:
        if [fault.path for fault in problem.faults] != ["$.variables"]:
            raise
        field, _, reason = problem.faults[0].message.partition(": ")
        raise TemplateError(field, reason) from problem
    return shown


def _write_html(path: Path, said: Mapping[str, str]) -> None:
    if "html" not in said:
        raise typer.BadParameter("it has no html part", param_hint="--html")
    try:
        path.write_text(said["html"], encoding="utf-8")
    except OSError as fault:
        words = f"{path} cannot be written: {fault.strerror or type(fault).__name__}"
        raise typer.BadParameter(words, param_hint="--html") from fault


def _show_preview(caller: Caller, shown: Preview) -> None:
    if caller.output.as_json:
        caller.output.record(shown)
        return
    what = "a file" if shown.version is None else f"version {shown.version}"
    made_up = f"; made up: {bytes(shown.variables).decode()}" if shown.made_up else ""
    length = f", {shown.sms.words}" if shown.sms else ""
    caller.output.info(plain(f"{shown.name}, {what}, {shown.locale}{length}{made_up}"))
    for part, rendered in shown.parts.items():
        caller.output.content(f"--- {part} ---\n{rendered}")
