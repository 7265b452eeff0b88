"""The `held` commands: deliveries whose call was begun and whose outcome nobody knows, until somebody settles them."""

from collections.abc import Mapping
from typing import Annotated

import typer
from msgspec import structs

from dispatcher.cli.calls import bulk
from dispatcher.cli.calls.bulk import Matched, Outcome, Words
from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.commands import command, group
from dispatcher.cli.failures import FAILED
from dispatcher.cli.options import Reason, Yes, require_filter, require_reason, require_words, second
from dispatcher.cli.terminal.launcher import launcher
from dispatcher.cli.terminal.output import show_list
from dispatcher.features.deliveries.commands import Id, show_delivery
from dispatcher.features.deliveries.endpoints import get_delivery
from dispatcher.features.held import endpoints
from dispatcher.features.held.models import HeldDelivery, SettleAs, Standing
from dispatcher.http.cursors import ID_MAX

app = group(help="List and show held deliveries, and say what became of them.")

WORDS = Words("delivery", "deliveries", "held", "settling", "settled", "settled", "none is held", "held")
AS_WORDS = {"sent": "settled as sent", "failed": "settled as failed", "requeue": "sent again"}

Channel = Annotated[str | None, typer.Option(help="Of one channel.")]


@command(app, "list", limit=20, after=False, spans=True)
def list_(caller: Caller, channel: Channel = None) -> None:
    """List held deliveries, the longest held first."""
    require_filter("--channel", channel)
    found = caller.listed(endpoints.list_held, channel=channel)
    columns = ("id", "channel", "tries", "held since", "to be settled from", "tenant", "to", "why")
    show_list(caller, found, columns, _cells, "Nothing is held.")
    if len(found) == caller.given.limit:
        caller.output.info("more may be held; see them with --limit")


def _cells(row: HeldDelivery) -> tuple[object, ...]:
    start = second(row.settle_after) if row.settle_after else "at once"
    return row.id, row.channel, row.attempt, second(row.held_at), start, row.tenant_id, row.recipient, row.error


@command(app, "show", spans=True)
def show(caller: Caller, delivery_id: Id) -> None:
    """Show a held delivery: since when and why, from when it can be settled, and everything that happened to it."""
    now: Standing = caller.ask(endpoints.get_held, delivery_id)
    if now.life != "held":
        see = f"see `{launcher()} deliveries show {delivery_id}`"
        caller.output.error("NotHeld", f"delivery {delivery_id} is not held, it is {now.life}: {see}")
        raise typer.Exit(FAILED)
    found = caller.ask(get_delivery, delivery_id)
    if caller.output.as_json:
        facts = {"held_at": now.held_at, "settle_after": now.settle_after, "can_be_settled": not now.wait_seconds}
        caller.output.record(structs.asdict(found) | facts)
        return
    caller.output.table(("held", str(delivery_id)), _facts(now))
    caller.output.text()
    show_delivery(caller, found)


def _facts(now: Standing) -> list[tuple[str, str]]:
    since = "unknown" if now.held_at is None else second(now.held_at)
    if now.wait_seconds and now.settle_after is not None:
        start = f"{second(now.settle_after)}: until then a call of its dead owner may still be going on"
    else:
        start = "now"
    return [("since", since), ("why", now.error or "unknown"), ("can be settled", start)]


@command(app, "resolve", acts=True, spans=True)
def resolve(  # noqa: PLR0913 - each is an option of the command line
    caller: Caller,
    reason: Reason,
    *,
    ids: Annotated[list[int] | None, typer.Argument(min=1, max=ID_MAX, metavar="[ID...]")] = None,
    sent: Annotated[bool, typer.Option("--sent", help="It has arrived.")] = False,
    failed: Annotated[bool, typer.Option("--failed", help="It has not arrived, and shall not any more.")] = False,
    requeue: Annotated[bool, typer.Option("--requeue", help="It has not arrived: send it again.")] = False,
    message_id: Annotated[str | None, typer.Option(help="With --sent: by which id its provider knows it.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that are held, in place of IDs.")] = False,
    channel: Channel = None,
    yes: Yes = False,
) -> None:
    """Say what became of held deliveries. Who said it, when and why is kept.

    By their IDs, or all of a channel or tenant with --all, which says first how many they are.
    """
    ids = list(dict.fromkeys(ids or []))
    settle_as = _one_of(sent, failed, requeue)
    _require_sense(caller, ids, everything, channel)
    if message_id is not None and (settle_as != "sent" or len(ids) != 1):
        raise typer.BadParameter("goes with --sent and one ID", param_hint="--message-id")
    require_reason(reason)
    if message_id is not None:
        require_words("--message-id", message_id)
    if everything:
        _settle_all(caller, settle_as, channel, reason, yes=yes)
    else:
        body = {"settle_as": settle_as, "reason": reason, "provider_message_id": message_id}
        bulk.act_on_named(caller, ids, lambda one: _settle(caller, one, body))


def _one_of(sent: bool, failed: bool, requeue: bool) -> SettleAs:
    match sent, failed, requeue:
        case True, False, False:
            return "sent"
        case False, True, False:
            return "failed"
        case False, False, True:
            return "requeue"
        case _:
            raise typer.BadParameter("name exactly one of them", param_hint="--sent, --failed, --requeue")


def _require_sense(caller: Caller, ids: list[int], everything: bool, channel: str | None) -> None:
    """IDs or --all, and filters with --all only."""
    if bool(ids) == everything:
        raise typer.BadParameter("name deliveries by their IDs, or all with --all", param_hint="ID")
    require_filter("--channel", channel)
    filters = {"--channel": channel, "--tenant": caller.given.tenant, "--workspace": caller.given.workspace}
    for option, text in filters.items():
        if text is not None and not everything:
            raise typer.BadParameter("goes with --all", param_hint=option)


def _settle(caller: Caller, delivery_id: int, body: Mapping[str, object]) -> Outcome:
    """Settle one; about one that was not settled, look what it is now."""
    outcome = bulk.attempt(caller, endpoints.resolve_held, delivery_id, body)
    if outcome.done or outcome.answer == "unknown":
        return outcome
    now: Standing = caller.ask(endpoints.get_held, delivery_id)
    return structs.replace(outcome, message=why_not(outcome.answer, now))


def why_not(answer: str, now: Standing) -> str:
    """Why a delivery was not settled, in a sentence."""
    if answer == "early":
        # Its time may have come between the answer and the look.
        until = f"before {second(now.settle_after)} (in {now.wait_seconds or 0:.0f} s)" if now.settle_after else "yet"
        return f"delivery {now.id} cannot be settled {until}: a call of its dead owner may still be going on"
    words = f"is not held, it is {now.life}" if answer == "not held" else f"is {answer} already"
    return f"delivery {now.id} {words}{_by_whom(now)}"


def _by_whom(now: Standing) -> str:
    if now.actor is None or now.at is None:
        return ""
    did = "requeued it" if now.action == "requeue" else f"settled it as {now.action}"
    return f": {now.actor} {did} at {second(now.at)} ({now.reason})"


def _settle_all(caller: Caller, settle_as: SettleAs, channel: str | None, reason: str, *, yes: bool) -> None:
    """Settle all that are held now, and none that is held later."""
    count, until = bulk.count(caller, endpoints.list_held, lambda row: row.held_at, {"channel": channel})
    body = {"settle_as": settle_as, "reason": reason, "channel": channel, "until": until}
    words = structs.replace(WORDS, done_as=AS_WORDS[settle_as])
    bulk.act_on_all(caller, words, [Matched(count, endpoints.resolve_all_held, body)], yes=yes)
