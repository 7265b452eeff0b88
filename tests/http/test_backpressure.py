"""Turns: callers leave the dispatcher the loop while it needs it, and only then."""

import asyncio

import pytest

from dispatcher.http.server.backpressure import PRESSED_TURNS, Turns


@pytest.mark.parametrize(("pressed", "most"), [(True, PRESSED_TURNS), (False, 3 * PRESSED_TURNS)])
async def test_only_some_are_worked_on_while_the_dispatcher_is_pressed(pressed: bool, most: int) -> None:
    turns, go_on = Turns(lambda: pressed, 3_600.0), asyncio.Event()
    inside, seen = 0, 0

    async def work() -> None:
        nonlocal inside, seen
        async with turns.one():
            inside += 1
            seen = max(seen, inside)
            await go_on.wait()
            inside -= 1

    tasks = [asyncio.create_task(work()) for _ in range(3 * PRESSED_TURNS)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert seen == most
    go_on.set()
    await asyncio.gather(*tasks)
    assert (seen, inside) == (most, 0)


async def test_who_waits_for_long_keeps_nobody_else_out() -> None:
    turns, go_on = Turns(lambda: True, 0.0), asyncio.Event()
    inside = 0

    async def wait() -> None:
        nonlocal inside
        async with turns.one():
            inside += 1
            await go_on.wait()

    waiting = [asyncio.create_task(wait()) for _ in range(2 * PRESSED_TURNS)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert inside == 2 * PRESSED_TURNS
    go_on.set()
    await asyncio.gather(*waiting)
    go_on.clear()

    # None of them has given its turn back twice: before the first ends, there are as many as ever.
    waiting = [asyncio.create_task(wait()) for _ in range(2 * PRESSED_TURNS)]
    await asyncio.sleep(0)
    assert inside == 3 * PRESSED_TURNS
    go_on.set()
    await asyncio.gather(*waiting)
