"""Held deliveries over HTTP: listed, shown; settled one by one, or all that match a filter."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dispatcher.db import timestamps
from dispatcher.features.deliveries import store as deliveries
from dispatcher.features.held import models, store
from dispatcher.http.bulk import GOES_ON, SWEPT, NotDone, sweep
from dispatcher.http.cursors import FIRST, cursor, microseconds, moment, read_numbers
from dispatcher.http.endpoints import Call, Done, endpoint
from dispatcher.http.listing import cut, page
from dispatcher.http.models import ACTED, Acted
from dispatcher.http.problems import CONFLICT, NOT_FOUND, Problem, not_found
from dispatcher.http.roles import Right

NOUN = "held"
SWEEP_NOUN = "settle"
# Groups are counted among so many deliveries, and the largest are shown.
COUNTED_MAX = 2_000
GROUPS_MAX = 50


@endpoint("GET", "/held", Right.HELD, query=models.HeldQuery, answered=models.HELD_DELIVERIES)
async def list_held(call: Call) -> Done:
    """List deliveries with an unknown outcome, the longest held first."""
    asked: models.HeldQuery = call.query
    place = None
    if asked.cursor is not None:
        since, last = read_numbers(NOUN, asked.cursor, 2)
        place = moment(since), last
    scope = call.part.tenant_id, call.part.workspace_id
    rows = await store.listed(
        call.database, *scope, asked.limit + 1, channel=asked.channel, error=asked.error, behind=place
    )
    return Done(models.HeldDeliveries(*page(rows, asked.limit, models.HeldDelivery, _end)))


def _end(row: Mapping[str, Any]) -> str:
    return cursor(NOUN, microseconds(row["held_at"]), row["id"])


@endpoint("GET", "/held/groups", Right.HELD, query=models.HeldFilter, answered=models.HELD_GROUPS)
async def list_held_groups(call: Call) -> Done:
    """List the largest groups of held deliveries with the same channel and error."""
    asked: models.HeldFilter = call.query
    scope = call.part.tenant_id, call.part.workspace_id
    most = COUNTED_MAX + 1
    rows = await store.groups(call.database, scope, asked.channel, asked.error, counted_max=most, count=GROUPS_MAX)
    counted = rows[0]["counted"] if rows else 0
    groups = [msgspec.convert(row, models.HeldGroup) for row in rows]
    return Done(models.HeldGroups(groups=groups, counted=min(counted, COUNTED_MAX), is_all=counted <= COUNTED_MAX))


@endpoint("GET", "/held/{delivery_id}", Right.HELD, answered=models.HELD_STATE, problems=(NOT_FOUND,))
async def get_held(call: Call) -> Done:
    """Show the state of a delivery that is or was held, and its last settlement."""
    delivery_id = await _named(call)
    now = (await store.state(call.database, [delivery_id]))[delivery_id]
    return Done(msgspec.convert(now, models.HeldState))


async def _named(call: Call) -> int:
    delivery_id = call.number("delivery_id", "delivery")
    if not call.owns(await deliveries.owner(call.database, delivery_id)):
        raise not_found(f"delivery {delivery_id}")
    return delivery_id


@endpoint(
    "POST",
    "/held/{delivery_id}/resolve",
    Right.HELD,
    given=models.Settle,
    example={"settle_as": "sent", "reason": "the provider's log has it", "provider_message_id": "m-17"},
    answered=ACTED,
    problems=(NOT_FOUND, CONFLICT),
)
async def resolve_held(call: Call) -> Done:
    """Settle a held delivery, or send it again."""
    delivery_id = await _named(call)
    said: models.Settle = call.given
    told = said.settle_as, call.actor, said.reason, said.provider_message_id
    answer = (await store.settle(call.database, [delivery_id], *told))[delivery_id]
    if answer == "settled":
        words = "will be sent again" if said.settle_as == "requeue" else f"is settled as {said.settle_as}"
        return Done(Acted(delivery_id, answer, f"delivery {delivery_id} {words}"))
    now = (await store.state(call.database, [delivery_id])).get(delivery_id)
    wait = {"retry-after": str(int(now["wait_seconds"] or 0) + 1)} if now is not None and answer == "early" else None
    raise Problem(CONFLICT, _why_not(delivery_id, answer, now), headers=wait, answer=answer)


def _why_not(delivery_id: int, answer: str, now: Mapping[str, Any] | None) -> str:
    if now is None:
        return f"delivery {delivery_id} does not exist"
    if answer == "early":
        return f"a call of delivery {delivery_id} by its dead owner may still be going on"
    return f"delivery {delivery_id} is not held, it is {now['life']}"


@endpoint(
    "POST",
    "/held/resolve",
    Right.HELD,
    given=models.SweepHeld,
    example={"settle_as": "requeue", "reason": "nothing of it has arrived", "channel": "sms"},
    answered=SWEPT,
    description=f"{GOES_ON} Deliveries that are held after the first request are left alone.",
)
async def resolve_all_held(call: Call) -> Done:
    """Settle all held deliveries that match a filter, as many as one request may."""
    said: models.SweepHeld = call.given
    if said.cursor is None:
        begun, place = await timestamps.now(call.database), (FIRST, 0)
    else:
        since, held_at, last = read_numbers(SWEEP_NOUN, said.cursor, 3, "$.cursor")
        begun, place = moment(since), (moment(held_at), last)
    until = begun if said.until is None else min(begun, said.until)
    scope = call.part.tenant_id, call.part.workspace_id
    rows = await store.listed(
        call.database,
        *scope,
        said.limit + 1,
        channel=said.channel,
        error=said.error,
        behind=place,
        until=until,
    )
    some, more = cut(
        rows, said.limit, lambda last: cursor(SWEEP_NOUN, *map(microseconds, (begun, last["held_at"])), last["id"])
    )

    async def act(ids: Sequence[int]) -> list[NotDone]:
        answers = await store.settle(call.database, ids, said.settle_as, call.actor, said.reason)
        left = [one for one in ids if answers[one] != "settled"]
        now = await store.state(call.database, left) if left else {}
        return [NotDone(one, answers[one], _why_not(one, answers[one], now.get(one))) for one in left]

    return Done(await sweep([row["id"] for row in some], act, more))
