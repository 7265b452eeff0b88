"""The `suppressions` commands: addresses that get nothing more, who said so, and when that ends."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from dispatcher.cli.commands import command, group
from dispatcher.cli.deliveries import LIMIT_MAX
from dispatcher.cli.importing import Table, read_table, refused, require_name
from dispatcher.cli.operating import UNNAMED, Actor, Reason, require_reason, require_text, second, who
from dispatcher.cli.progress import progress_bar
from dispatcher.cli.session import Session
from dispatcher.cli.voice import Voice
from dispatcher.domain.addresses import KINDS, Address, given
from dispatcher.domain.life import LANES
from dispatcher.domain.suppression import SOURCES
from dispatcher.doors.nouns import Meant, Released, Row, Suppressions
from dispatcher.store.intake import instant
from dispatcher.store.suppressions import Entry

app = group(help="List, add, remove, import and check addresses that get nothing more.")

CATCH_UP_PAGE = 500
IMPORT_PAGE = 5_000
AddAll = Callable[[Iterable[Sequence[Entry]]], Awaitable[None]]
Faults = Callable[[Sequence[Entry]], Awaitable[list[tuple[int, str]]]]
_FIRST = ("", "", "", "")

Addresses = Annotated[list[str], typer.Argument(metavar="ADDRESS...")]
Tenant = Annotated[str | None, typer.Option(help=f"Whose list it is; {UNNAMED}.")]
OfKind = Annotated[
    str | None, typer.Option("--kind", help=f"One of {', '.join(KINDS)}; seen from the address without it.")
]
OfSource = Annotated[str | None, typer.Option("--source", help=f"One of {', '.join(SOURCES)}.")]
OneChannel = Annotated[str | None, typer.Option("--channel", help="On one channel; on every one without it.")]


def one_of(option: str, text: str | None, known: tuple[str, ...]) -> str | None:
    """A word of a closed set, or nothing."""
    if text is not None and text not in known:
        raise typer.BadParameter(f"expected one of {', '.join(known)}", param_hint=option)
    return text


def addresses(texts: list[str], kind: str | None) -> list[Address]:
    """What was named on the command line, each once."""
    one_of("--kind", kind, KINDS)
    found: list[Address] = []
    for text in texts:
        require_text("ADDRESS", text)
        try:
            found.append(given(text, kind))  # type: ignore[arg-type]  # one of the kinds, as was just seen
        except ValueError as fault:
            raise typer.BadParameter(f"{text!r} {fault}", param_hint="ADDRESS") from fault
    return list(dict.fromkeys(found))


def require_tenant(tenant: str | None) -> None:
    """Refuse what the schema does not take."""
    if tenant is not None:
        require_name("--tenant", tenant)


def catch_up(session: Session, noun: Suppressions, count: int) -> None:
    """Skip what is queued for those about whom something was just said; a running dispatcher would do it too."""
    done = 0
    with progress_bar(session.voice, "looking through the queue", count) as at:
        while some := session.run(lambda: noun.catch_up(CATCH_UP_PAGE)):
            done += some
            at(min(done, count))


@command(app, "list")
def list_(
    session: Session,
    *,
    tenant: Tenant = None,
    source: OfSource = None,
    kind: OfKind = None,
    limit: Annotated[int, typer.Option(min=1, max=LIMIT_MAX, help="How many.")] = 100,
    behind: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Only those behind this one.")] = None,
) -> None:
    """List suppressed addresses, in their order."""
    one_of("--source", source, SOURCES)
    require_tenant(tenant)
    start = _FIRST
    if behind is not None:
        (after,) = addresses([behind], kind)
        # No channel and no source comes behind this one.
        start = (after.kind, after.text, "~", "~")
    one_of("--kind", kind, KINDS)
    with session.doors() as doors:
        found = session.run(lambda: doors.suppressions.listed(tenant, start, limit, source=source, kind=kind))
    if session.voice.as_json:
        for row in found:
            session.voice.record(row)
        return
    if not found:
        session.voice.text("Nobody is suppressed.")
        return
    columns = ("address", "channel", "source", "since", "until", "by", "why")
    session.voice.table(columns, ((row["address"], *_cells(row)) for row in found))
    if len(found) == limit:
        session.voice.say(f"more: --behind {found[-1]['address']}")


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    until = second(row["expires_at"]) if row["expires_at"] else ""
    return row["channel"] or "every", row["source"], second(row["added_at"]), until, row["actor"], row["reason"]


@command(app, "add")
def add(  # noqa: PLR0913 - each is an option of the command line
    session: Session,
    texts: Addresses,
    reason: Reason,
    *,
    source: Annotated[
        str, typer.Option(help="operator, or where it is known from: complaint, unsubscribe …")
    ] = "operator",
    channel: OneChannel = None,
    expires_at: Annotated[str | None, typer.Option(metavar="RFC3339", help="Until when; for good without it.")] = None,
    kind: OfKind = None,
    tenant: Tenant = None,
    actor: Actor = None,
) -> None:
    """Suppress addresses: nothing more is sent to them, and what is queued is skipped."""
    one_of("--source", source, SOURCES)
    until = _future(expires_at)
    _require_channel(session, channel)
    require_reason(reason)
    require_tenant(tenant)
    meant, by = addresses(texts, kind), who(session, actor)
    entries = [Entry(one, source, reason, channel or "", until) for one in meant]  # type: ignore[arg-type]  # a source
    with session.doors() as doors:
        session.run(lambda: doors.suppressions.add(tenant, by, entries))
        catch_up(session, doors.suppressions, len(entries))
    for one in meant:
        if session.voice.as_json:
            session.voice.record({"address": one.text, "kind": one.kind, "suppressed": True})
        else:
            session.voice.text(f"{one.text} is suppressed")


def _future(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        until = instant(text)
    except ValueError as fault:
        raise typer.BadParameter(str(fault), param_hint="--expires-at") from fault
    if until <= datetime.now(UTC):
        raise typer.BadParameter("is over already", param_hint="--expires-at")
    return until


def _require_channel(session: Session, channel: str | None) -> None:
    # A server knows its own channels.
    if channel is not None and session.address is None:
        one_of("--channel", channel, tuple(sorted(session.config.channels)))


@command(app, "remove")
def remove(
    session: Session,
    texts: Addresses,
    reason: Reason,
    *,
    source: OfSource = None,
    channel: OneChannel = None,
    kind: OfKind = None,
    tenant: Tenant = None,
    actor: Actor = None,
) -> None:
    """Take addresses off the list, or only what one source said about them. What was skipped stays skipped."""
    one_of("--source", source, SOURCES)
    require_text("--channel", channel)
    require_reason(reason)
    require_tenant(tenant)
    meant, by = addresses(texts, kind), who(session, actor)
    which = Released(source, channel)
    with session.doors() as doors:
        gone = session.run(lambda: doors.suppressions.release(tenant, meant, by, reason, which))
    for one in meant:
        sources = gone.get(one, [])
        if session.voice.as_json:
            session.voice.record({"address": one.text, "kind": one.kind, "removed": sources})
        else:
            said = f"is not suppressed any more ({', '.join(sources)})" if sources else "was not on the list"
            session.voice.text(f"{one.text} {said}")


@command(app, "import")
def import_(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="- is the standard input.")],
    reason: Reason,
    *,
    source: Annotated[str, typer.Option(help="Where a line does not say it.")] = "import",
    tenant: Tenant = None,
    actor: Actor = None,
) -> None:
    """Suppress the addresses of a file: all of them, or none where any line has a fault.

    One address a line, or CSV with a first line that names its columns: address, and kind, channel, source, reason and
    expires_at where there are any.
    """
    one_of("--source", source, SOURCES)
    require_reason(reason)
    require_tenant(tenant)
    by = who(session, actor)
    default = Entry(Address("other", ""), source, reason)  # type: ignore[arg-type]  # a source
    table = read_table(session.voice, file, default)
    entries = table.entries
    with session.doors() as doors:
        _look(session, partial(doors.suppressions.faults, tenant), table)
        if table.faults:
            raise refused(session.voice, table)
        _write(session, partial(doors.suppressions.add_all, tenant, by), entries)
        catch_up(session, doors.suppressions, len(entries))
    if session.voice.as_json:
        session.voice.record({"imported": len(entries)})
    else:
        session.voice.text(f"{len(entries):,} {'address is' if len(entries) == 1 else 'addresses are'} suppressed")


def _look(session: Session, faults: Faults, table: Table) -> None:
    """Let whoever would write the entries say what is wrong with them."""
    with progress_bar(session.voice, "checking", len(table.entries)) as at:
        for start in range(0, len(table.entries), IMPORT_PAGE):
            at(start)
            page = table.entries[start : start + IMPORT_PAGE]
            for place, words in session.run(lambda some=page: faults(some)):  # type: ignore[misc]  # bound now
                table.fault(start + place, words)


def _write(session: Session, add_all: AddAll, entries: list[Entry]) -> None:
    """In one transaction: who stops it, or loses the database on the way, has added nothing. A server adds pages."""
    added = 0
    with progress_bar(session.voice, "suppressing", len(entries)) as at:

        def pages() -> Iterator[list[Entry]]:
            nonlocal added
            for start in range(0, len(entries), IMPORT_PAGE):
                added = start
                at(start)
                yield entries[start : start + IMPORT_PAGE]

        try:
            session.run(lambda: add_all(pages()))
        except BaseException:
            if session.address is not None:
                words = f"stopped: at least {added:,} are suppressed. Import the whole file again: they stay the same."
                session.voice.note(words, {"imported": added})
            raise


@command(app, "check")
def check(
    session: Session,
    text: Annotated[str, typer.Argument(metavar="ADDRESS")],
    *,
    channel: Annotated[str | None, typer.Option(help="By which channel it would be sent.")] = None,
    topic: Annotated[str | None, typer.Option(help="What it would be about.")] = None,
    lane: Annotated[str, typer.Option(help=f"One of {', '.join(LANES)}.")] = "normal",
    kind: OfKind = None,
    tenant: Tenant = None,
) -> None:
    """Say whether something would be sent to an address now, and everything that was ever said about it."""
    one_of("--lane", lane, tuple(LANES))
    _require_channel(session, channel)
    require_text("--topic", topic)
    require_tenant(tenant)
    (meant,) = addresses([text], kind)
    asked = Meant(meant, channel, topic, lane)
    with session.doors() as doors:
        found = session.run(lambda: doors.suppressions.check(tenant, asked))
    why = found.why
    if session.voice.as_json:
        facts = {"address": meant.text, "kind": meant.kind, "barred": why is not None, "reason": why}
        session.voice.record(facts | {"entries": found.entries, "topics": found.topics, "log": found.log})
    else:
        _tell(session.voice, meant.text, why, found.log)


def _tell(voice: Voice, address: str, why: str | None, said: Sequence[Row]) -> None:
    voice.text(f"{address} would get it" if why is None else f"{address} would not get it: {why}")
    if said:
        voice.text()
        columns = ("when", "who", "what", "about", "until", "why")
        voice.table(columns, (_log_cells(row) for row in said))


def _log_cells(row: dict[str, Any]) -> tuple[object, ...]:
    about = row["topic"] or ", ".join(filter(None, (row["source"], row["channel"])))
    until = second(row["expires_at"]) if row["expires_at"] else ""
    return second(row["at"]), row["actor"], row["action"], about, until, row["reason"]
