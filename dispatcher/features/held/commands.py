"""The `held` commands: list, show and settle deliveries whose outcome is unknown."""

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
from dispatcher.features.held.models import HeldDelivery, HeldState, SettleAs
from dispatcher.http.cursors import ID_MAX

app = group(help="List, show and settle held deliveries.")

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
    """Show a held delivery: since when and why, when it can be settled, and its trace."""
    now: HeldState = caller.ask(endpoints.get_held, delivery_id)
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


def _facts(now: HeldState) -> list[tuple[str, str]]:
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
    failed: Annotated[bool, typer.Option("--failed", help="It has not arrived: do not send it again.")] = False,
    requeue: Annotated[bool, typer.Option("--requeue", help="It has not arrived: send it again.")] = False,
    message_id: Annotated[str | None, typer.Option(help="With --sent: the id of the message at its provider.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All held deliveries, in place of IDs.")] = False,
    channel: Channel = None,
    yes: Yes = False,
) -> None:
    """Settle held deliveries. Actor, time and reason are stored.

    Deliveries are named by IDs, or with --all are all of a channel or tenant, which are counted first.
    """
    ids = list(dict.fromkeys(ids or []))
    settle_as = _one_of(sent, failed, requeue)
    _check_selection(caller, ids, everything, channel)
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
    options: dict[SettleAs, bool] = {"sent": sent, "failed": failed, "requeue": requeue}
    chosen = [name for name, given in options.items() if given]
    if len(chosen) != 1:
        raise typer.BadParameter("name exactly one of them", param_hint="--sent, --failed, --requeue")
    return chosen[0]


def _check_selection(caller: Caller, ids: list[int], everything: bool, channel: str | None) -> None:
    """Require IDs or --all, and filters only with --all."""
    if bool(ids) == everything:
        raise typer.BadParameter("name deliveries by their IDs, or all with --all", param_hint="ID")
    require_filter("--channel", channel)
    filters = {"--channel": channel, "--tenant": caller.given.tenant, "--workspace": caller.given.workspace}
    for option, text in filters.items():
        if text is not None and not everything:
            raise typer.BadParameter("goes with --all", param_hint=option)


def _settle(caller: Caller, delivery_id: int, body: Mapping[str, object]) -> Outcome:
    """Settle a delivery; where that is refused, describe its state now."""
    outcome = bulk.attempt(caller, endpoints.resolve_held, delivery_id, body)
    if outcome.done or outcome.answer == "unknown":
        return outcome
    now: HeldState = caller.ask(endpoints.get_held, delivery_id)
    return structs.replace(outcome, message=refusal_sentence(outcome.answer, now))


def refusal_sentence(answer: str, now: HeldState) -> str:
    """Return why a delivery was not settled, as a sentence."""
    if answer == "early":
        # The time may have come between the two requests.
        until = f"before {second(now.settle_after)} (in {now.wait_seconds or 0:.0f} s)" if now.settle_after else "yet"
        return f"delivery {now.id} cannot be settled {until}: a call of its dead owner may still be going on"
    words = f"is not held, it is {now.life}" if answer == "not held" else f"is {answer} already"
    return f"delivery {now.id} {words}{_by_whom(now)}"


def _by_whom(now: HeldState) -> str:
    if now.actor is None or now.at is None:
        return ""
    did = "requeued it" if now.action == "requeue" else f"settled it as {now.action}"
    return f": {now.actor} {did} at {second(now.at)} ({now.reason})"


def _settle_all(caller: Caller, settle_as: SettleAs, channel: str | None, reason: str, *, yes: bool) -> None:
    """Settle all that are held now; later ones are left alone."""
    count, until = bulk.count(caller, endpoints.list_held, lambda row: row.held_at, {"channel": channel})
    body = {"settle_as": settle_as, "reason": reason, "channel": channel, "until": until}
    words = structs.replace(WORDS, done_as=AS_WORDS[settle_as])
    bulk.act_on_all(caller, words, [Matched(count, endpoints.resolve_all_held, body)], yes=yes)
