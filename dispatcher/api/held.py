"""Held deliveries over HTTP: which they are, and what somebody says became of one."""

from datetime import UTC, datetime, timedelta

import msgspec
from msgspec import structs

from dispatcher.api import models
from dispatcher.api.cursors import behind, cursor
from dispatcher.api.endpoints import Call, Done, Endpoint
from dispatcher.api.problems import CONFLICT, NOT_FOUND, Problem, not_found
from dispatcher.domain.roles import Right
from dispatcher.store import deliveries, held, settling

NOUN = "held"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


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
    page = rows[: asked.limit]
    more = None
    if len(rows) > asked.limit:
        more = cursor(NOUN, (page[-1]["held_at"] - _EPOCH) // _MICROSECOND, page[-1]["id"])
    return Done(models.HeldDeliveries([msgspec.convert(row, models.HeldDelivery) for row in page], more))


def _place(text: str) -> tuple[datetime, int]:
    microseconds, delivery_id = behind(NOUN, text, 2)
    try:
        return _EPOCH + microseconds * _MICROSECOND, delivery_id
    except OverflowError:
        # Nobody was given that one: nothing comes behind it.
        return datetime.max.replace(tzinfo=UTC), delivery_id


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
    if answer == "early":
        wait = {"retry-after": str(int(now.wait_seconds or 0) + 1)}
        raise Problem(
            CONFLICT, f"a call of delivery {delivery_id} by its dead owner may still be going on", (), wait, answer
        )
    raise Problem(CONFLICT, f"delivery {delivery_id} is not held, it is {now.life}", answer=answer)


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
)
