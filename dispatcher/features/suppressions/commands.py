"""The `suppressions` commands: addresses that get nothing more, who said so, and when that ends."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import structs

from dispatcher.base.values.durations import instant
from dispatcher.cli.addresses import OfKind, addresses
from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.commands import command, group
from dispatcher.cli.options import Reason, one_of
from dispatcher.cli.terminal.output import cell, show_list, tell
from dispatcher.cli.terminal.progress import progress_bar
from dispatcher.engine.rules.life import LANES
from dispatcher.engine.rules.suppression import SOURCES
from dispatcher.engine.store import suppression
from dispatcher.features.suppressions import endpoints
from dispatcher.features.suppressions.import_file import import_file
from dispatcher.features.suppressions.models import (
    AddedSuppressions,
    CheckedAddress,
    RemovedSuppressions,
    Saying,
    Suppression,
    WholePreference,
)
from dispatcher.http.cursors import cursor_after_texts

app = group(help="List, add, remove, import and check addresses that get nothing more.")

CATCH_UP_PAGE = 500

Addresses = Annotated[list[str], typer.Argument(metavar="ADDRESS...")]
Behind = Annotated[str | None, typer.Option(metavar="ADDRESS", help="Only those behind this one.")]
OfSource = Annotated[
    str | None, typer.Option("--source", help=f"One of {', '.join(SOURCES)}.", callback=one_of(SOURCES))
]
OneChannel = Annotated[str | None, typer.Option("--channel", help="On one channel; on every one without it.")]


def catch_up(caller: Caller, count: int) -> None:
    """Skip what is queued for those about whom something was just said; a running dispatcher would do it too."""
    if caller.session.address is not None:
        return
    done = 0
    with progress_bar(caller.output, "looking through the queue", count) as at:
        while some := caller.session.run(lambda: suppression.catch_up(caller.database, CATCH_UP_PAGE)):
            done += some
            at(min(done, count))


def show_addressed(
    caller: Caller,
    rows: Sequence[Suppression] | Sequence[WholePreference],
    columns: Sequence[str],
    cells: Callable[[Any], Sequence[object]],
    nothing: str,
) -> None:
    """Show rows about addresses, as JSON with the tenant whose they are."""
    if caller.output.as_json and rows:
        tenant_id = caller.workspace().tenant_id
        for row in rows:
            caller.output.record({"tenant_id": tenant_id, **structs.asdict(row)})
        return
    show_list(caller, rows, columns, cells, nothing)
    if len(rows) == caller.given.limit:
        caller.output.info(f"more: --behind {rows[-1].address}")


@command(app, "list", limit=100, after=False)
def list_(caller: Caller, *, source: OfSource = None, kind: OfKind = None, behind: Behind = None) -> None:
    """List suppressed addresses, in their order."""
    cursor = None
    if behind is not None:
        (after,) = addresses([behind], kind)
        # No channel and no source comes behind this one.
        cursor = cursor_after_texts(endpoints.NOUN, after.kind, after.text, "~", "~")
    found = caller.listed(endpoints.list_suppressions, source=source, kind=kind, cursor=cursor)
    columns = ("address", "channel", "source", "since", "until", "by", "why")
    show_addressed(caller, found, columns, _cells, "Nobody is suppressed.")


def _cells(row: Suppression) -> tuple[object, ...]:
    since, until = cell(row.added_at), cell(row.expires_at)
    return row.address, row.channel or "every", row.source, since, until, row.actor, row.reason


@command(app, "add", acts=True)
def add(
    caller: Caller,
    texts: Addresses,
    reason: Reason,
    *,
    source: Annotated[
        str,
        typer.Option(help="operator, or where it is known from: complaint, unsubscribe …", callback=one_of(SOURCES)),
    ] = "operator",
    channel: OneChannel = None,
    expires_at: Annotated[str | None, typer.Option(metavar="RFC3339", help="Until when; for good without it.")] = None,
    kind: OfKind = None,
) -> None:
    """Suppress addresses: nothing more is sent to them, and what is queued is skipped."""
    same = {"kind": kind, "channel": channel, "expires_at": _future(expires_at)}
    body = {"suppressions": [{"address": text, **same} for text in texts], "reason": reason, "source": source}
    done: AddedSuppressions = caller.ask(endpoints.add_suppressions, body=body)
    catch_up(caller, len(done.suppressions))
    for one in done.suppressions:
        tell(caller, one, f"{one.address} is suppressed")


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


@command(app, "remove", acts=True)
def remove(
    caller: Caller,
    texts: Addresses,
    reason: Reason,
    *,
    source: OfSource = None,
    channel: OneChannel = None,
    kind: OfKind = None,
) -> None:
    """Take addresses off the list, or only what one source said about them. What was skipped stays skipped."""
    body = {"addresses": texts, "reason": reason, "source": source, "channel": channel, "kind": kind}
    done: RemovedSuppressions = caller.ask(endpoints.remove_suppressions, body=body)
    for one in done.suppressions:
        said = f"is not suppressed any more ({', '.join(one.removed)})" if one.removed else "was not on the list"
        tell(caller, one, f"{one.address} {said}")


@command(app, "import", acts=True)
def import_(
    caller: Caller,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="- is the standard input.")],
    reason: Reason,
    *,
    source: Annotated[str, typer.Option(help="Where a line does not say it.", callback=one_of(SOURCES))] = "import",
) -> None:
    """Suppress the addresses of a file: all of them, or none where any line has a fault.

    One address a line, or CSV with a first line that names its columns: address, and kind, channel, source, reason and
    expires_at where there are any.
    """
    count = import_file(caller, file, endpoints.add_suppressions, {"reason": reason, "source": source})
    catch_up(caller, count)
    tell(caller, {"imported": count}, f"{count:,} {'address is' if count == 1 else 'addresses are'} suppressed")


@command(app, "check")
def check(
    caller: Caller,
    text: Annotated[str, typer.Argument(metavar="ADDRESS")],
    *,
    channel: Annotated[str | None, typer.Option(help="By which channel it would be sent.")] = None,
    topic: Annotated[str | None, typer.Option(help="What it would be about.")] = None,
    lane: Annotated[str, typer.Option(help=f"One of {', '.join(LANES)}.", callback=one_of(tuple(LANES)))] = "normal",
    kind: OfKind = None,
) -> None:
    """Say whether something would be sent to an address now, and everything that was ever said about it."""
    body = {"address": text, "kind": kind, "channel": channel, "topic": topic, "lane": lane}
    found: CheckedAddress = caller.ask(endpoints.check_address, body=body)
    would = f"would not get it: {found.reason}" if found.barred else "would get it"
    tell(caller, found, f"{found.address} {would}")
    if found.log and not caller.output.as_json:
        caller.output.text()
        columns = ("when", "who", "what", "about", "until", "why")
        caller.output.table(columns, map(_log_cells, found.log))


def _log_cells(one: Saying) -> tuple[object, ...]:
    about = one.topic or ", ".join(filter(None, (one.source, one.channel)))
    return cell(one.at), one.actor, one.action, about, cell(one.expires_at), one.reason
