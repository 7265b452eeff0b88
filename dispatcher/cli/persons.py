"""The `contacts` commands about a person, wherever they stand: what they were sent and why, and everything there is."""

from collections.abc import Awaitable, Callable, Iterator
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
from dispatcher.domain.addresses import Address
from dispatcher.domain.persons import ADDRESSES_MAX, Person
from dispatcher.doors.nouns import Whose
from dispatcher.doors.persons import Mark, Part, Persons

Whom = Annotated[list[str] | None, typer.Argument(metavar="ADDRESS...", help="The addresses of one person.")]
Named = tuple[list[Address], str | None]
OfContact = Annotated[str | None, typer.Option("--contact", metavar="KEY", help="And those of this contact.")]


def timeline(
    session: Session,
    text: Annotated[str, typer.Argument(metavar="ADDRESS")],
    *,
    kind: OfKind = None,
    limit: Annotated[int, typer.Option(min=1, max=LIMIT_MAX, help="How many; all of them are --json's.")] = 100,
    tenant: Tenant = None,
    workspace: InWorkspace = None,
) -> None:
    """Show every message to an address and why it was sent, with what was said about the address, the newest first."""
    here = place(tenant, workspace)
    (meant,) = addresses([text], kind)
    with session.doors() as doors:
        entries, shown = _pages(session, lambda behind: doors.persons.timeline(here, meant, behind, limit)), 0
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


def _pages(session: Session, ask: Callable[[Mark | None], Awaitable[Part]]) -> Iterator[Any]:
    """What is on all pages, of which one is kept at a time."""
    part = session.run(partial(ask, None))
    yield from part.rows
    while part.behind is not None:
        part = session.run(partial(ask, part.behind))
        yield from part.rows


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
    tenant: Tenant = None,
    workspace: InWorkspace = None,
) -> None:
    """Print everything there is about a person as JSON, one record a line.

    That is the contact, each delivery with what it said and what became of it, each run that it concerns, and what
    stands on lists.
    """
    here, named = place(tenant, workspace), whom(texts, kind, contact)
    with session.doors() as doors, progress_bar(session.voice, "exporting", 0) as at:
        noun, who = doors.persons, person(session, doors.persons, here, named)
        for done, row in enumerate(_pages(session, lambda behind: noun.export(here, who, behind)), 1):
            session.voice.record(row)
            at(done)


def whom(texts: list[str] | None, kind: str | None, contact: str | None) -> Named:
    """Whom the command line names."""
    require_text("--contact", contact)
    meant = addresses(texts or [], kind)
    if not meant and contact is None:
        raise typer.BadParameter("name an address, or a contact by --contact", param_hint="ADDRESS")
    if len(meant) > ADDRESSES_MAX:
        raise typer.BadParameter(f"are more than {ADDRESSES_MAX}, which nobody has", param_hint="ADDRESS")
    return meant, contact


def person(session: Session, noun: Persons, here: Whose, named: Named) -> Person:
    """Who is there of that name, with all that their contacts have; the command ends where there is no such contact."""
    found = session.run(lambda: noun.find(here, *named))
    if found is None:
        session.voice.fail("NotFound", f"there is no contact {named[1]} here")
        raise typer.Exit(FAILED)
    return found
