"""Held deliveries over HTTP: which they are, and what somebody says became of one, or of all that a filter matches."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import structs

from dispatcher.api import models
from dispatcher.api.cursors import FIRST, behind, cursor, microseconds, moment
from dispatcher.api.endpoints import Call, Done, Endpoint
from dispatcher.api.listing import cut, page
from dispatcher.api.problems import CONFLICT, NOT_FOUND, Problem, not_found
from dispatcher.api.sweep_models import Refused, SweepHeld, Swept
from dispatcher.api.sweeping import GOES_ON, sweep
from dispatcher.domain.roles import Right
from dispatcher.store import deliveries, held, settling, times
from dispatcher.store.settling import Filter, Standing

NOUN = "held"
SWEEP_NOUN = "settle"


async def list_(call: Call) -> Done:
    """The longest held."""
    asked: models.HeldQuery = call.query
    rows = await held.listed(
        call.database,
        asked.limit + 1,
        channel=asked.channel,
        tenant_id=call.workspace.tenant_id,
        workspace_id=call.workspace.workspace_id,
        behind=None if asked.cursor is None else _place(asked.cursor),
    )
    some = page(
        rows, asked.limit, models.HeldDelivery, lambda row: cursor(NOUN, microseconds(row["held_at"]), row["id"])
    )
    return Done(models.HeldDeliveries(*some))


def _place(text: str) -> tuple[datetime, int]:
    number, delivery_id = behind(NOUN, text, 2)
    return moment(number), delivery_id


async def resolve(call: Call) -> Done:
    """Settle one, in somebody's word."""
    delivery_id = call.number("delivery_id", "delivery")
    if not call.owns(await deliveries.owner(call.database, delivery_id)):
        raise not_found(f"delivery {delivery_id}")
    said: models.Settle = call.given
    told = said.settle_as, call.actor, said.reason, said.provider_message_id
    answer = await held.settle(call.database, delivery_id, *told)
    if answer == "settled":
        words = "will be sent again" if said.settle_as == "requeue" else f"is settled as {said.settle_as}"
        return Done(models.Acted(delivery_id, answer, f"delivery {delivery_id} {words}"))
    now = (await settling.standing(call.database, [delivery_id]))[delivery_id]
    wait = {"retry-after": str(int(now.wait_seconds or 0) + 1)} if answer == "early" else None
    raise Problem(CONFLICT, _why_not(delivery_id, answer, now), headers=wait, answer=answer)


def _why_not(delivery_id: int, answer: str, now: Standing | None) -> str:
    if now is None:
        return f"delivery {delivery_id} does not exist"
    if answer == "early":
        return f"a call of delivery {delivery_id} by its dead owner may still be going on"
    return f"delivery {delivery_id} is not held, it is {now.life}"


async def resolve_all(call: Call) -> Done:
    """Settle everything that is held and meant, in somebody's word."""
    said: SweepHeld = call.given
    if said.cursor is None:
        begun, place = await times.now(call.database), (FIRST, 0)
    else:
        since, held_at, last = behind(SWEEP_NOUN, said.cursor, 3, "$.cursor")
        begun, place = moment(since), (moment(held_at), last)
    meant = Filter(said.channel, call.workspace.tenant_id, call.workspace.workspace_id)
    rows = await settling.held_page(call.database, meant, begun, place, said.limit + 1)
    some, more = cut(
        rows, said.limit, lambda last: cursor(SWEEP_NOUN, microseconds(begun), microseconds(last[1]), last[0])
    )

    async def act(page: Sequence[int]) -> list[Refused | None]:
        answers = dict(await settling.settle(call.database, page, said.settle_as, call.actor, said.reason, None))
        left = [one for one in page if answers.get(one) != "settled"]
        now = await settling.standing(call.database, left) if left else {}
        return [
            Refused(one, answers.get(one, "unknown"), _why_not(one, answers.get(one, "unknown"), now.get(one)))
            for one in left
        ]

    return Done(await sweep([one for one, _ in some], act, more))


async def show(call: Call) -> Done:
    """Where one stands, also when it is held no more."""
    delivery_id = call.number("delivery_id", "delivery")
    if not call.owns(await deliveries.owner(call.database, delivery_id)):
        raise not_found(f"delivery {delivery_id}")
    now = (await settling.standing(call.database, [delivery_id]))[delivery_id]
    return Done(models.Standing(id=delivery_id, **structs.asdict(now)))


ENDPOINTS = (
    Endpoint(
        operation="listHeld",
        method="GET",
        path="/held",
        right=Right.HELD,
        summary="List deliveries of which nobody knows how they ended, the longest held first",
        query=models.HeldQuery,
        answer=models.HeldDeliveries,
        handle=list_,
    ),
    Endpoint(
        operation="getHeld",
        method="GET",
        path="/held/{delivery_id}",
        right=Right.HELD,
        summary="Show where a delivery stands that is or was held, and who settled it last",
        answer=models.Standing,
        problems=(NOT_FOUND,),
        handle=show,
    ),
    Endpoint(
        operation="resolveHeld",
        method="POST",
        path="/held/{delivery_id}/resolve",
        right=Right.HELD,
        summary="Say what became of a held delivery, or have it sent again",
        given=models.Settle,
        example={"settle_as": "sent", "reason": "the provider's log has it", "provider_message_id": "m-17"},
        answer=models.Acted,
        problems=(NOT_FOUND, CONFLICT),
        handle=resolve,
    ),
    Endpoint(
        operation="resolveAllHeld",
        method="POST",
        path="/held/resolve",
        right=Right.HELD,
        summary="Say what became of all held deliveries that a filter matches, as many as one request may",
        description=f"{GOES_ON} What is held after the first of them is left alone.",
        given=SweepHeld,
        example={"settle_as": "requeue", "reason": "nothing of it has arrived", "channel": "sms"},
        answer=Swept,
        handle=resolve_all,
    ),
)
