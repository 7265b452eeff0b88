"""The slots: no lane shuts another out, and what was taken comes back."""

import asyncio

import pytest

from dispatcher.engine.rules.life import Lane
from dispatcher.engine.slots import Slots

TURN_SECONDS_MAX = 5.0


@pytest.mark.parametrize("total", [3, 10, 500])
@pytest.mark.parametrize("greedy", Lane)
def test_a_greedy_lane_leaves_every_other_its_reserve(total: int, greedy: Lane) -> None:
    slots = Slots(total)
    taken = slots.take(greedy, total * 10)
    others = [lane for lane in Lane if lane is not greedy]
    assert taken == total - 2 * slots.reserve
    assert [slots.take(lane, slots.reserve) for lane in others] == [slots.reserve] * 2
    assert sum(slots.used.values()) == total


def test_two_greedy_lanes_leave_the_third_its_reserve() -> None:
    slots = Slots(100)
    slots.take(Lane.BULK, 1_000)
    slots.take(Lane.NORMAL, 1_000)
    assert slots.take(Lane.TRANSACTIONAL, 1_000) == slots.reserve


def test_never_more_is_taken_than_there_is() -> None:
    slots = Slots(7)
    for lane in (*Lane, *Lane):
        slots.take(lane, 4)
        assert sum(slots.used.values()) <= 7


def test_surplus_slots_of_a_smaller_total_drain_by_themselves() -> None:
    slots = Slots(100)
    slots.take(Lane.BULK, 80)
    slots.resize(10)
    assert slots.take(Lane.BULK, 1) == slots.take(Lane.NORMAL, 1) == 0
    slots.give_back(Lane.BULK, 80)
    assert slots.take(Lane.NORMAL, 1) == 1


async def test_a_waiter_for_slots_is_woken_by_returned_slots() -> None:
    slots = Slots(3)
    slots.take(Lane.BULK, 1)
    assert slots.take(Lane.BULK, 1) == 0
    waiting = asyncio.ensure_future(slots.freed(Lane.BULK))
    slots.give_back(Lane.BULK, 1)
    await asyncio.wait_for(waiting, TURN_SECONDS_MAX)
    assert slots.take(Lane.BULK, 1) == 1


async def test_a_waiter_for_slots_is_woken_by_a_reload() -> None:
    slots = Slots(3)
    slots.take(Lane.BULK, 1)
    assert slots.take(Lane.BULK, 1) == 0
    slots.resize(100)
    await asyncio.wait_for(slots.freed(Lane.BULK), 0.2)
