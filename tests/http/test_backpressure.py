"""Backpressure: callers leave the dispatcher the loop while it needs it, and only then."""

import asyncio

import pytest

from dispatcher.http.server.backpressure import SLOTS, RequestSlots


@pytest.mark.parametrize(("pressed", "most"), [(True, SLOTS), (False, 3 * SLOTS)])
async def test_only_some_are_worked_on_while_the_dispatcher_is_pressed(pressed: bool, most: int) -> None:
    slots, go_on = RequestSlots(lambda: pressed, 3_600.0), asyncio.Event()
    inside, seen = 0, 0

    async def work() -> None:
        nonlocal inside, seen
        async with slots.slot():
            inside += 1
            seen = max(seen, inside)
            await go_on.wait()
            inside -= 1

    tasks = [asyncio.create_task(work()) for _ in range(3 * SLOTS)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert seen == most
    go_on.set()
    await asyncio.gather(*tasks)
    assert (seen, inside) == (most, 0)


async def test_a_long_wait_does_not_block_other_triggers() -> None:
    slots, go_on = RequestSlots(lambda: True, 0.0), asyncio.Event()
    inside = 0

    async def wait() -> None:
        nonlocal inside
        async with slots.slot():
            inside += 1
            await go_on.wait()

    waiting = [asyncio.create_task(wait()) for _ in range(2 * SLOTS)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert inside == 2 * SLOTS
    go_on.set()
    await asyncio.gather(*waiting)
    go_on.clear()

    # None of them has given its slot back twice: before the first ends, there are as many as ever.
    waiting = [asyncio.create_task(wait()) for _ in range(2 * SLOTS)]
    await asyncio.sleep(0)
    assert inside == 3 * SLOTS
    go_on.set()
    await asyncio.gather(*waiting)
