"""The `templates` commands: what is stored, and what becomes of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from msgspec import structs

from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.commands import Version, command, group
from dispatcher.cli.options import name_given, second
from dispatcher.cli.terminal.output import cell, show_list, tell
from dispatcher.features.templates import endpoints
from dispatcher.features.templates.drafts import difference, library, readable, readable_version, save
from dispatcher.features.templates.files import SUFFIX, read, text
from dispatcher.features.templates.models import PublishedTemplate, Template, TemplateVersion, WholeTemplate
from dispatcher.features.templates.preview_command import preview
from dispatcher.features.templates.sync_command import sync
from dispatcher.http.models import VERSION_MAX

VERSIONS_SHOWN = 20

app = group(help="Save, look at and publish templates.")
command(app, "preview")(preview)
command(app, "sync", acts=True)(sync)

Name = Annotated[str, typer.Argument(metavar="NAME", callback=name_given)]
FileOf = Annotated[Path, typer.Argument(metavar="FILE", help=f"A template, such as welcome{SUFFIX}.")]
Instead = Annotated[Path | None, typer.Option("--file", help="A file in place of a version.")]


@command(app, "put", acts=True)
def put(
    caller: Caller,
    file: FileOf,
    *,
    publish: Annotated[bool, typer.Option("--publish", help="Publish it as well.")] = False,
) -> None:
    """Save a template from a file, as another version where it says something else.

    It is refused with every fault and its line; then nothing is saved.
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
    source: Annotated[bool, typer.Option("--source", help="Only what it says, as its file would be.")] = False,
) -> None:
    """Show a version: what it says, what it reads, and its fellows."""
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
    """Publish a version, also an older one: from now on deliveries by this name are frozen to it.

    What is on its way keeps the version that it has.
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
    old: Annotated[
        int | None, typer.Option("--from", min=1, max=VERSION_MAX, help="From which version; the published one.")
    ] = None,
    new: Annotated[
        int | None, typer.Option("--to", min=1, max=VERSION_MAX, help="To which version; the newest.")
    ] = None,
    file: Instead = None,
) -> None:
    """Show what differs between two versions, or between a version and a file."""
    if file is not None and new is not None:
        raise typer.BadParameter("stands in place of --to", param_hint="--file")
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
    """A file that has no faults, as a text that can be compared."""
    written = read(file, str(file), name)
    save(caller, [written], check=True)
    return readable(written.draft, library(caller, [written.draft], together=False))


def _get(caller: Caller, name: str, version: int | None) -> WholeTemplate:
    with caller.hinted(endpoints.list_templates, name):
        found: WholeTemplate = caller.ask(endpoints.get_template, name, version=version)
    return found
