"""The `held` commands: deliveries whose call was begun and whose outcome nobody knows, until somebody settles them."""

from typing import Annotated, Any

import typer

from dispatcher.cli import deliveries
from dispatcher.cli.commands import command, group
from dispatcher.cli.deliveries import ID_MAX, LIMIT_MAX, Id
from dispatcher.cli.failures import FAILED
from dispatcher.cli.operating import Actor, Reason, Yes, require_filter, require_reason, require_words, second, who
from dispatcher.cli.program import launcher
from dispatcher.cli.session import Session
from dispatcher.cli.settling import settle_all, settle_listed, settle_these
from dispatcher.doors.nouns import HeldFilter, Settlement
from dispatcher.store.held import SettleAs
from dispatcher.store.settling import Filter, Standing

app = group(help="List and show held deliveries, and say what became of them.")

Channel = Annotated[str | None, typer.Option(help="Of one channel.")]
Tenant = Annotated[str | None, typer.Option(help="Of one tenant.")]


@command(app, "list")
def list_(
    session: Session,
    channel: Channel = None,
    tenant: Tenant = None,
    limit: Annotated[int, typer.Option(min=1, max=LIMIT_MAX, help="How many.")] = 20,
) -> None:
    """List held deliveries, the longest held first."""
    require_filter("--channel", channel)
    require_filter("--tenant", tenant)
    which = HeldFilter(channel, tenant)
    with session.doors() as doors:
        found = session.run(lambda: doors.held.listed(which, limit))
        count = session.run(lambda: doors.held.count(which))
    if session.voice.as_json:
        for row in found:
            session.voice.record(row)
        return
    columns = ("id", "channel", "tries", "held since", "to be settled from", "tenant", "to", "why")
    session.voice.table(columns, (_cells(row) for row in found))
    if count is None and len(found) == limit:
        session.voice.say("more may be held; see them with --limit")
    elif count is not None and count > len(found):
        session.voice.say(f"{count:,} are held; see more of them with --limit")


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    since, settle_after = second(row["held_at"]), row["settle_after"]
    start = second(settle_after) if settle_after else "at once"
    return row["id"], row["channel"], row["attempt"], since, start, row["tenant_id"], row["recipient"], row["error"]


@command(app, "show")
def show(session: Session, delivery_id: Id) -> None:
    """Show a held delivery: since when and why, from when it can be settled, and everything that happened to it."""
    with session.doors() as doors:
        now = session.run(lambda: doors.held.standing([delivery_id])).get(delivery_id)
        found = session.run(lambda: doors.deliveries.show(delivery_id))
    if now is None or found is None:
        session.voice.fail("NotFound", f"there is no delivery {delivery_id}")
        raise typer.Exit(FAILED)
    if now.life != "held":
        see = f"see `{launcher()} deliveries show {delivery_id}`"
        session.voice.fail("NotHeld", f"delivery {delivery_id} is not held, it is {now.life}: {see}")
        raise typer.Exit(FAILED)
    if session.voice.as_json:
        facts = {"held_at": now.held_at, "settle_after": now.settle_after, "can_be_settled": not now.wait_seconds}
        session.voice.record(found | facts)
    else:
        session.voice.table(("held", str(delivery_id)), _facts(now))
        session.voice.text()
        deliveries.show_found(session, found, f"delivery {delivery_id}")


def _facts(now: Standing) -> list[tuple[str, str]]:
    since = "unknown" if now.held_at is None else second(now.held_at)
    if now.wait_seconds and now.settle_after is not None:
        start = f"{second(now.settle_after)}: until then a call of its dead owner may still be going on"
    else:
        start = "now"
    return [("since", since), ("why", now.error or "unknown"), ("can be settled", start)]


@command(app, "resolve")
def resolve(  # noqa: PLR0913 - each is an option of the command line
    session: Session,
    reason: Reason,
    *,
    ids: Annotated[list[int] | None, typer.Argument(min=1, max=ID_MAX, metavar="[ID...]")] = None,
    sent: Annotated[bool, typer.Option("--sent", help="It has arrived.")] = False,
    failed: Annotated[bool, typer.Option("--failed", help="It has not arrived, and shall not any more.")] = False,
    requeue: Annotated[bool, typer.Option("--requeue", help="It has not arrived: send it again.")] = False,
    message_id: Annotated[str | None, typer.Option(help="With --sent: by which id its provider knows it.")] = None,
    actor: Actor = None,
    everything: Annotated[bool, typer.Option("--all", help="All that are held, in place of IDs.")] = False,
    channel: Channel = None,
    tenant: Tenant = None,
    yes: Yes = False,
) -> None:
    """Say what became of held deliveries. Who said it, when and why is kept.

    By their IDs, or all of a channel or tenant with --all, which says first how many they are.
    """
    ids = list(dict.fromkeys(ids or []))
    settle_as = _one_of(sent, failed, requeue)
    _require_sense(ids, everything, channel, tenant)
    if message_id is not None and (settle_as != "sent" or len(ids) != 1):
        raise typer.BadParameter("goes with --sent and one ID", param_hint="--message-id")
    require_reason(reason)
    if message_id is not None:
        require_words("--message-id", message_id)
    settlement = Settlement(settle_as, who(session, actor), reason, message_id)
    if everything and session.address is None:
        with session.database() as database:
            done = settle_all(session, database, Filter(channel, tenant), settlement, yes)
    else:
        with session.doors() as doors:
            if everything:
                done = settle_listed(session, doors.held, HeldFilter(channel, tenant), settlement, yes)
            else:
                done = settle_these(session, doors.held, ids, settlement)
    if not done:
        raise typer.Exit(FAILED)


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


def _require_sense(ids: list[int], everything: bool, channel: str | None, tenant: str | None) -> None:
    """IDs or --all, and filters with --all only."""
    if bool(ids) == everything:
        raise typer.BadParameter("name deliveries by their IDs, or all with --all", param_hint="ID")
    for option, text in (("--channel", channel), ("--tenant", tenant)):
        require_filter(option, text)
        if text is not None and not everything:
            raise typer.BadParameter("goes with --all", param_hint=option)
