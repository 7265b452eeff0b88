"""The `deliveries` commands: list, show, retry, cancel and move deliveries."""

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from textwrap import shorten
from typing import Annotated, Any, get_args

import msgspec
import typer
from msgspec import UNSET, Struct, UnsetType, structs

from dispatcher.base.errors import Fault
from dispatcher.base.values.durations import instant
from dispatcher.cli.arguments import object_with_pairs
from dispatcher.cli.calls import bulk
from dispatcher.cli.calls.bulk import Outcome
from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.commands import command, group
from dispatcher.cli.failures import FAILED, UNUSABLE
from dispatcher.cli.options import Actor, Reason, known_as, reason_fault, require_filter, require_reason, words_fault
from dispatcher.cli.terminal.output import cell, show_facts, show_list, tries
from dispatcher.features.deliveries import endpoints
from dispatcher.features.deliveries.models import Delivery, DeliveryLife, WholeDelivery, Written
from dispatcher.features.deliveries.rules import STOPPED
from dispatcher.features.deliveries.send_file import outlook
from dispatcher.http.cursors import ID_MAX
from dispatcher.http.endpoints import Endpoint

LIVES = get_args(DeliveryLife)
# In the table of a list.
SUBJECT_CHARACTERS_MAX = 40
TRACE = ("attempts", "evidence", "receipts", "actions", "captured")

app = group(help="List and show deliveries; retry, cancel or move them.")

Id = Annotated[int, typer.Argument(min=1, max=ID_MAX, metavar="ID")]
Ids = Annotated[list[int], typer.Argument(min=1, max=ID_MAX, metavar="ID...")]
AnyIds = Annotated[list[int] | None, typer.Argument(min=1, max=ID_MAX, metavar="ID")]
Keys = Annotated[list[str] | None, typer.Option("--key", help="A key; any number of times.")]


@command(app, "list", limit=20, after=False, spans=True)
def list_(
    caller: Caller,
    *,
    life: Annotated[str | None, typer.Option("--life", "--status", help=f"One of {', '.join(LIVES)}.")] = None,
    channel: Annotated[str | None, typer.Option(help="Of one channel.")] = None,
    before: Annotated[int, typer.Option(min=1, max=ID_MAX, metavar="ID", help="Only older ones.")] = ID_MAX,
) -> None:
    """List the newest deliveries."""
    if life is not None and life not in LIVES:
        raise typer.BadParameter(f"expected one of {', '.join(LIVES)}", param_hint="--life")
    require_filter("--channel", channel)
    found = caller.listed(endpoints.list_deliveries, life=life, channel=channel, before=before)
    columns = ("id", "channel", "life", "tries", "due or ended", "to", "subject", "error")
    show_list(caller, found, columns, _cells, "There are no such deliveries.")
    if len(found) == caller.given.limit:
        caller.output.info(f"older ones: --before {found[-1].id}")


def _cells(row: Delivery) -> tuple[object, ...]:
    when = f"{row.finished_at or row.run_at:%Y-%m-%d %H:%M:%S}"
    subject = shorten(row.subject or "", SUBJECT_CHARACTERS_MAX, placeholder=" …")
    return row.id, row.channel, row.life, tries(row), when, row.recipient, subject, _why(row)


def _why(row: Delivery) -> str | None:
    return row.error if row.waits is None else f"waits: {row.waits}"


@command(app, "show")
def show(
    caller: Caller,
    delivery_id: Annotated[int | None, typer.Argument(min=1, max=ID_MAX, metavar="ID")] = None,
    key: Annotated[str | None, typer.Option(help="By its key instead.")] = None,
) -> None:
    """Show a delivery with its trace."""
    if (delivery_id is None) == (key is None):
        raise typer.BadParameter("name the delivery by its ID or by --key", param_hint="ID")
    require_filter("--key", key)
    if key is not None and (delivery_id := _holder(caller, key)) is None:
        caller.output.error("NotFound", f"there is no delivery with the key {key}")
        raise typer.Exit(FAILED)
    show_delivery(caller, caller.ask_by_id(endpoints.get_delivery, delivery_id or 0))


def _holder(caller: Caller, key: str) -> int | None:
    """Return the id of the delivery that holds a key, or None."""
    found = caller.ask(endpoints.list_deliveries, idempotency_key=key, limit=1).deliveries
    return found[0].id if found else None


def show_delivery(caller: Caller, found: WholeDelivery) -> None:
    """Show a delivery with its trace; the contract's status stands in JSON only, beside its life."""
    show_facts(caller, "delivery", str(found.id), found, "id", "status", *TRACE)
    if caller.output.as_json:
        return
    for name in TRACE:
        rows: Sequence[Struct] = getattr(found, name)
        if rows:
            caller.output.text(f"\n{name}")
            caller.output.table(
                rows[0].__struct_fields__, ([cell(value) for value in structs.astuple(row)] for row in rows)
            )


@command(app, "mail", spans=True)
def mail(caller: Caller, delivery_id: Id) -> None:
    """Write a captured mail to standard output, in the form that a server would get."""
    found = caller.ask(endpoints.get_delivery_mail, delivery_id)
    caller.output.flush()
    sys.stdout.buffer.write(found.raw)


class Repaired(Outcome, frozen=True):
    """The outcome for a delivery that was written anew."""

    delivery_id: int


@command(app, "retry", acts=True, spans=True)
def retry(
    caller: Caller,
    ids: Ids,
    reason: Reason,
    var: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A variable that it lacked: JSON, else text.")
    ] = None,
) -> None:
    """Send failed or skipped deliveries again, with all their attempts anew.

    With --var each is written anew with that variable, under the key retry-of-ID: what it says never changes itself.
    """
    require_reason(reason)
    body: dict[str, Any] = {"reason": reason}
    if var:
        body["variables"] = msgspec.json.decode(object_with_pairs("--var", None, "--var", var))
    verb, told = (endpoints.repair_delivery, _repaired) if var else (endpoints.retry_delivery, bulk.acted)
    bulk.act_on_named(caller, ids, lambda one: bulk.attempt(caller, verb, one, body, told=told))


def _repaired(number: int, new: Written) -> Outcome:
    words = f"delivery {number} is written anew as delivery {new.id}; {outlook(new, datetime.now(UTC))}"
    return Repaired(number, True, "repaired", words, new.id)


@command(app, "cancel")
def cancel(caller: Caller, reason: Reason, *, ids: AnyIds = None, keys: Keys = None, actor: Actor = None) -> None:
    """Cancel deliveries that are not with their provider yet, named by their IDs, by --key, or both."""
    _act(caller, endpoints.cancel_delivery, {"reason": reason}, ids or [], keys or [], actor, [])


@command(app, "move")
def move(
    caller: Caller,
    at: Annotated[str, typer.Option(metavar="RFC3339", help="The new time.")],
    reason: Reason,
    *,
    ids: AnyIds = None,
    keys: Keys = None,
    actor: Actor = None,
) -> None:
    """Move deliveries that are not with their provider yet to another time, named by their IDs, by --key, or both."""
    body: dict[str, Any] = {"reason": reason}
    faults = []
    try:
        body["run_at"] = instant(at)
    except ValueError as fault:
        faults = [Fault("--at", str(fault))]
    _act(caller, endpoints.move_delivery, body, ids or [], keys or [], actor, faults)


class KeyOutcome(Outcome, frozen=True):
    """The outcome for a delivery that may be named by a key."""

    key: str | UnsetType = UNSET


def _act(
    caller: Caller,
    verb: Endpoint,
    body: Mapping[str, Any],
    ids: Sequence[int],
    keys: Sequence[str],
    actor: str | None,
    faults: list[Fault],
) -> None:
    """Act on deliveries named by ids and keys, unless there are faults or a key without a delivery."""
    caller.operator, wrong = known_as(caller.session, actor)
    checks = {
        "ID": None if ids or keys else "name deliveries by their IDs or by --key",
        "--reason": reason_fault(body["reason"]),
        "--actor": wrong,
    }
    checked = [*checks.items(), *(("--key", words_fault(key)) for key in keys)]
    faults += [Fault(option, words) for option, words in checked if words is not None]
    holders = {key: _holder(caller, key) for key in dict.fromkeys(keys) if words_fault(key) is None}
    _refuse_missing(caller, [key for key, holder in holders.items() if holder is None], faults)
    named: list[tuple[int, str | UnsetType]] = [(one, UNSET) for one in ids]
    named += {holder: key for key, holder in holders.items() if holder is not None and holder not in ids}.items()

    def act(one: tuple[int, str | UnsetType]) -> Outcome:
        delivery_id, key = one
        outcome = bulk.attempt(caller, verb, delivery_id, body, anywhere=True)
        done = outcome.done and outcome.answer != STOPPED
        return KeyOutcome(delivery_id, done, outcome.answer, outcome.message, key)

    bulk.act_on_named(caller, named, act)


def _refuse_missing(caller: Caller, missing: Sequence[str], faults: list[Fault]) -> None:
    """Exit where there are faults, or keys without a delivery."""
    code, name = (UNUSABLE, "UsageError") if faults else (FAILED, "NotFound")
    if missing:
        place = caller.workspace()
        where = f"of tenant {place.tenant_id} in workspace {place.workspace_id}"
        faults += [Fault("--key", f"{key} is the key of no delivery {where}") for key in missing]
    if faults:
        caller.output.error(name, "nothing was done", faults)
        raise typer.Exit(code)
