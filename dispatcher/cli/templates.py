"""The `templates` commands: what is stored, and what becomes of it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from dispatcher.cli.commands import command, group
from dispatcher.cli.operating import Actor, require_after, second, who
from dispatcher.cli.session import Session
from dispatcher.cli.template_file import SUFFIX, read, text
from dispatcher.cli.template_preview import preview
from dispatcher.cli.template_sync import sync
from dispatcher.cli.template_work import (
    InWorkspace,
    Name,
    Number,
    Tenant,
    compare_all,
    difference,
    missing,
    place,
    readable,
    require,
)
from dispatcher.cli.voice import plain
from dispatcher.store.templates import NUMBER_MAX, Found

LIMIT_MAX = 10_000
VERSIONS_SHOWN = 20

app = group(help="Save, look at and publish templates.")
command(app, "preview")(preview)
command(app, "sync")(sync)

FileOf = Annotated[Path, typer.Argument(metavar="FILE", help=f"A template, such as welcome{SUFFIX}.")]
Instead = Annotated[Path | None, typer.Option("--file", help="A file in place of a version.")]


@command(app, "put")
def put(
    session: Session,
    file: FileOf,
    *,
    publish: Annotated[bool, typer.Option("--publish", help="Publish it as well.")] = False,
    actor: Actor = None,
    tenant: Tenant = None,
    workspace: InWorkspace = None,
) -> None:
    """Save a template from a file, as another version where it says something else.

    It is refused with every fault and its line; then nothing is saved.
    """
    by, here = who(session, actor), place(tenant, workspace)
    written = read(file, str(file), file.name.removesuffix(SUFFIX))
    with session.doors() as doors:
        pairs = [(one.draft, tried) for one, tried in compare_all(session, doors.templates, here, [written])]
        (saved,) = session.run(lambda: doors.templates.put(here, pairs, by, publish=publish))
        found = require(session, doors.templates, here, written.draft.name, saved.number)
    if session.voice.as_json:
        session.voice.record(_record(found) | {"created": saved.created})
        return
    what = "is saved" if saved.created else "says this already"
    state = ", and published" if found.published == saved.number else ""
    session.voice.text(plain(f"template {found.name}: version {saved.number} {what}{state}"))


@command(app, "list")
def list_(
    session: Session,
    *,
    limit: Annotated[int, typer.Option(min=1, max=LIMIT_MAX, help="How many.")] = 100,
    after: Annotated[str, typer.Option(metavar="NAME", help="Only those after this one.")] = "",
    tenant: Tenant = None,
    workspace: InWorkspace = None,
) -> None:
    """List templates by name."""
    here = place(tenant, workspace)
    require_after(after)
    with session.doors() as doors:
        found = session.run(lambda: doors.templates.listed(here, after, limit))
    if session.voice.as_json:
        for row in found:
            session.voice.record(row)
    elif found:
        session.voice.table(("name", "channel", "locales", "newest", "published", "by", "at"), map(_cells, found))
        if len(found) == limit:
            session.voice.say(f"further ones: --after {found[-1]['name']}")
    else:
        session.voice.text("There are no templates.")


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    published = "no" if row["published"] is None else row["published"]
    locales = ", ".join(row["locales"])
    return (
        row["name"],
        row["channel"] or "partial",
        locales,
        row["latest"],
        published,
        row["author"],
        second(row["created_at"]),
    )


@command(app, "show")
def show(
    session: Session,
    name: Name,
    *,
    version: Number = None,
    source: Annotated[bool, typer.Option("--source", help="Only what it says, as its file would be.")] = False,
    tenant: Tenant = None,
    workspace: InWorkspace = None,
) -> None:
    """Show a version: what it says, what it reads, and its fellows."""
    here = place(tenant, workspace)
    with session.doors() as doors:
        found = require(session, doors.templates, here, name, version)
        history = session.run(lambda: doors.templates.versions(here, name, VERSIONS_SHOWN))
    if source:
        session.voice.content(text(found.draft))
    elif session.voice.as_json:
        session.voice.record(_record(found) | {"versions": history})
    else:
        _show_all(session, found, history)


def _show_all(session: Session, found: Found, history: list[dict[str, Any]]) -> None:
    facts = (
        ("channel", found.channel or "partial"),
        ("version", f"{found.number} of {found.latest}, by {found.author}, {second(found.created_at)}"),
        ("published", "no version" if found.published is None else f"version {found.published}"),
        ("locales", ", ".join(found.sources)),
        ("rights", ", ".join(found.rights) or "none"),
        ("reads", ", ".join(found.variables) or "nothing"),
    )
    session.voice.table(("template", found.name), facts)
    session.voice.text()
    session.voice.content(readable(found.draft, found.sources))
    rows = ((row["number"], row["author"], second(row["created_at"]), _published(row)) for row in history)
    session.voice.table(("version", "by", "at", "published last"), rows)


def _published(row: dict[str, Any]) -> str:
    return "" if row["published_at"] is None else f"{second(row['published_at'])} by {row['published_by']}"


def _record(found: Found) -> dict[str, object]:
    return {
        "name": found.name,
        "channel": found.channel,
        "version": found.number,
        "latest": found.latest,
        "published": found.published,
        "default_locale": found.default_locale,
        "rights": found.rights,
        "variables": found.variables,
        "locales": {locale: {"parts": one.parts, "partials": one.partials} for locale, one in found.sources.items()},
        "author": found.author,
        "created_at": found.created_at,
    }


@command(app, "publish")
def publish(
    session: Session,
    name: Name,
    *,
    version: Number = None,
    actor: Actor = None,
    tenant: Tenant = None,
    workspace: InWorkspace = None,
) -> None:
    """Publish a version, also an older one: from now on deliveries by this name are frozen to it.

    What is on its way keeps the version that it has.
    """
    by, here = who(session, actor), place(tenant, workspace)
    with session.doors() as doors:
        done = session.run(lambda: doors.templates.publish(here, name, version, by))
        if done is None:
            missing(session, doors.templates, here, name, version)
    if session.voice.as_json:
        session.voice.record({"name": name, "published": done.number, "before": done.number_before})
        return
    before = "" if done.number_before in (None, done.number) else f"; version {done.number_before} was"
    already = " already" if done.number_before == done.number else ""
    session.voice.text(plain(f"template {name}: version {done.number} is published{already}{before}"))


@command(app, "diff")
def diff(
    session: Session,
    name: Name,
    *,
    old: Annotated[
        int | None, typer.Option("--from", min=1, max=NUMBER_MAX, help="From which version; the published one.")
    ] = None,
    new: Annotated[
        int | None, typer.Option("--to", min=1, max=NUMBER_MAX, help="To which version; the newest.")
    ] = None,
    file: Instead = None,
    tenant: Tenant = None,
    workspace: InWorkspace = None,
) -> None:
    """Show what differs between two versions, or between a version and a file."""
    here = place(tenant, workspace)
    if file is not None and new is not None:
        raise typer.BadParameter("stands in place of --to", param_hint="--file")
    with session.doors() as doors:
        if old is None:
            newest = require(session, doors.templates, here, name, None)
            before = require(session, doors.templates, here, name, newest.published or newest.number)
        else:
            before = require(session, doors.templates, here, name, old)
        if file is None:
            after = require(session, doors.templates, here, name, new)
            right, label = readable(after.draft, after.sources), f"{name} version {after.number}"
        else:
            written = read(file, str(file), name)
            ((_, tried),) = compare_all(session, doors.templates, here, [written])
            right, label = readable(written.draft, tried.version.sources), str(file)
    words = difference(readable(before.draft, before.sources), right, f"{name} version {before.number}", label)
    if session.voice.as_json:
        session.voice.record({"name": name, "from": before.number, "to": label, "differs": bool(words), "diff": words})
    elif words:
        session.voice.content(words)
    else:
        session.voice.text(plain(f"{name} version {before.number} and {label} say the same"))
