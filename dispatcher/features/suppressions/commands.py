"""The `suppressions` commands: addresses that get no messages, why, and until when."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import structs

from dispatcher.base.values.counts import counted
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
    AddressAction,
    AddressPreference,
    CheckedAddress,
    RemovedSuppressions,
    Suppression,
)
from dispatcher.http.cursors import cursor

app = group(help="List, add, remove, import and check addresses that get no messages.")

CATCH_UP_PAGE = 500

Addresses = Annotated[list[str], typer.Argument(metavar="ADDRESS...")]
Behind = Annotated[str | None, typer.Option(metavar="ADDRESS", help="Only those after this one.")]
OfSource = Annotated[
    str | None, typer.Option("--source", help=f"One of {', '.join(SOURCES)}.", callback=one_of(SOURCES))
]
OneChannel = Annotated[str | None, typer.Option("--channel", help="On one channel; on all without the option.")]


def catch_up(caller: Caller, count: int) -> None:
    """Skip what is queued for addresses that were just suppressed; a running dispatcher does the same."""
    if caller.session.address is not None:
        return
    done = 0
    with progress_bar(caller.output, "looking through the queue", count) as at:
        while some := caller.session.run(lambda: suppression.catch_up(caller.database, CATCH_UP_PAGE)):
            done += some
            at(min(done, count))


def show_addressed(
    caller: Caller,
    rows: Sequence[Suppression] | Sequence[AddressPreference],
    columns: Sequence[str],
    cells: Callable[[Any], Sequence[object]],
    nothing: str,
) -> None:
    """Show rows about addresses, as JSON with their tenant."""
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
    start = None
    if behind is not None:
        (after,) = addresses([behind], kind)
        # No channel and no source comes behind this one.
        start = cursor(endpoints.NOUN, after.kind, after.text, "~", "~")
    found = caller.listed(endpoints.list_suppressions, source=source, kind=kind, cursor=start)
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
        typer.Option(help="operator, or another source: complaint, unsubscribe …", callback=one_of(SOURCES)),
    ] = "operator",
    channel: OneChannel = None,
    expires_at: Annotated[str | None, typer.Option(metavar="RFC3339", help="Until when; forever without it.")] = None,
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
        raise typer.BadParameter(f"{text} is in the past", param_hint="--expires-at")
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
    """Remove addresses from the list, or only the entries of one source. Skipped deliveries stay skipped."""
    body = {"addresses": texts, "reason": reason, "source": source, "channel": channel, "kind": kind}
    done: RemovedSuppressions = caller.ask(endpoints.remove_suppressions, body=body)
    for one in done.suppressions:
        result = f"is not suppressed any more ({', '.join(one.removed)})" if one.removed else "was not on the list"
        tell(caller, one, f"{one.address} {result}")


@command(app, "import", acts=True)
def import_(
    caller: Caller,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="- is the standard input.")],
    reason: Reason,
    *,
    source: Annotated[str, typer.Option(help="For lines without a source.", callback=one_of(SOURCES))] = "import",
) -> None:
    """Suppress the addresses of a file: all of them, or none if any line has a fault.

    One address a line, or CSV with a first line that names its columns: address, and kind, channel, source, reason and
    expires_at where there are any.
    """
    count = import_file(caller, file, endpoints.add_suppressions, {"reason": reason, "source": source})
    catch_up(caller, count)
    tell(caller, {"imported": count}, f"{counted(count, 'address is', 'addresses are')} suppressed")


@command(app, "check")
def check(
    caller: Caller,
    text: Annotated[str, typer.Argument(metavar="ADDRESS")],
    *,
    channel: Annotated[str | None, typer.Option(help="Of the message.")] = None,
    topic: Annotated[str | None, typer.Option(help="Of the message.")] = None,
    lane: Annotated[str, typer.Option(help=f"One of {', '.join(LANES)}.", callback=one_of(tuple(LANES)))] = "normal",
    kind: OfKind = None,
) -> None:
    """Show whether a message to an address would be sent now, and the log of the address."""
    body = {"address": text, "kind": kind, "channel": channel, "topic": topic, "lane": lane}
    found: CheckedAddress = caller.ask(endpoints.check_address, body=body)
    would = f"would not get it: {found.reason}" if found.barred else "would get it"
    tell(caller, found, f"{found.address} {would}")
    if found.log and not caller.output.as_json:
        caller.output.text()
        columns = ("when", "who", "what", "about", "until", "why")
        caller.output.table(columns, map(_log_cells, found.log))


def _log_cells(one: AddressAction) -> tuple[object, ...]:
    about = one.topic or ", ".join(filter(None, (one.source, one.channel)))
    return cell(one.at), one.actor, one.action, about, cell(one.expires_at), one.reason
