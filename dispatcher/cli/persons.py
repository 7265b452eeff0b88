"""The `contacts` commands about a person, wherever they stand: what they were sent and why, and everything there is."""

from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any

import typer

from dispatcher.cli.deliveries import LIMIT_MAX
from dispatcher.cli.failures import FAILED
from dispatcher.cli.operating import require_text, second
from dispatcher.cli.progress import progress_bar
from dispatcher.cli.session import Session
from dispatcher.cli.suppressions import OfKind, addresses
from dispatcher.cli.template_work import InWorkspace, Tenant, place
from dispatcher.domain import persons
from dispatcher.domain.persons import Person
from dispatcher.store import persons as store
from dispatcher.store.database import Database
from dispatcher.store.templates import Workspace

EXPORT_PAGE = 500
Whom = Annotated[list[str] | None, typer.Argument(metavar="ADDRESS...", help="The addresses of one person.")]
OfContact = Annotated[str | None, typer.Option("--contact", metavar="KEY", help="And those of this contact.")]


def timeline(
    session: Session,
    text: Annotated[str, typer.Argument(metavar="ADDRESS")],
    *,
    kind: OfKind = None,
    limit: Annotated[int, typer.Option(min=1, max=LIMIT_MAX, help="How many; all of them are --json's.")] = 100,
    tenant: Tenant = "default",
    workspace: InWorkspace = "default",
) -> None:
    """Show every message to an address and why it was sent, with what was said about the address, the newest first."""
    here = place(tenant, workspace).workspace
    (meant,) = addresses([text], kind)
    with session.database() as database:
        entries, shown = _pages(session, database, (here, meant), limit), 0
        if session.voice.as_json:
            for one in entries:
                session.voice.record(one)
            return
        rows = []
        for one in entries:
            rows.append(_cells(one))
            shown += 1
            if shown == limit:
                break
    if not rows:
        session.voice.text(f"Nothing was sent to {meant.text} here, and nothing was said about it.")
        return
    session.voice.table(("at", "id", "channel", "what", "became", "why"), rows)
    if shown == limit:
        session.voice.say("there may be more: see --limit, or --json for all")


def _pages(session: Session, database: Database, asked: tuple[Workspace, Any], count: int) -> Iterator[dict[str, Any]]:
    before: store.Place | None = store.END
    here, meant = asked

    async def page(at: store.Place) -> store.Page:
        return await store.timeline(database, here, meant, at, count)

    while before is not None:
        found = session.run(partial(page, before))
        yield from found.entries
        before = found.behind


def _cells(one: dict[str, Any]) -> tuple[object, ...]:
    if one["kind"] == "delivery":
        what = one["subject"] or one["template_name"] or ""
        became = one["life"] + (f": {one['error']}" if one["error"] else "")
        return second(one["at"]), one["id"], one["channel"], what, became, one["reason"]
    about = one["topic"] or one["source"] or ""
    return (
        second(one["at"]),
        "",
        one["channel"],
        f"{one['kind']} {about}".strip(),
        "",
        f"{one['actor']}: {one['reason']}",
    )


def export_person(
    session: Session,
    texts: Whom = None,
    *,
    contact: OfContact = None,
    kind: OfKind = None,
    tenant: Tenant = "default",
    workspace: InWorkspace = "default",
) -> None:
    """Print everything there is about a person as JSON, one record a line.

    That is the contact, each delivery with what it said and what became of it, each run that it concerns, and what
    stands on lists.
    """
    here = place(tenant, workspace).workspace
    with session.database() as database, progress_bar(session.voice, "exporting", 0) as at:
        who, done = person(session, database, here, (texts or [], kind, contact)), 0
        where: tuple[int, int] | None = store.BEGIN
        while where is not None:
            page, where = session.run(partial(store.export, database, here, who, where, EXPORT_PAGE))
            for row in page:
                session.voice.record(row)
            done += len(page)
            at(done)


def person(
    session: Session, database: Database, here: Workspace, named: tuple[list[str], str | None, str | None]
) -> Person:
    """Whom the command line means."""
    texts, kind, contact = named
    require_text("--contact", contact)
    meant = addresses(texts, kind)
    if contact is not None:
        found = session.run(lambda: store.behind_contact(database, here, contact))
        if found is None:
            session.voice.fail("NotFound", f"there is no contact {contact} here")
            raise typer.Exit(FAILED)
        meant += found.addresses
    if not meant and contact is None:
        raise typer.BadParameter("name an address, or a contact by --contact", param_hint="ADDRESS")
    return persons.of(meant)
