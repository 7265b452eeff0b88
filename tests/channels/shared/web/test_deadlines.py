"""A deadline does what `asyncio.timeout` does, with one timer for all."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from channels.shared.web.deadlines import Deadline, Deadlines

# How a case names the two sides: `asyncio.timeout` and ours, entered the same way.
Limit = Callable[[float | None], AbstractAsyncContextManager[object]]
Case = Callable[[Limit], Coroutine[Any, Any, None]]
SOON = 0.01
LATE = 60.0


def ours() -> Limit:
    deadlines = Deadlines()

    @asynccontextmanager
    async def limit(seconds: float | None) -> AsyncIterator[None]:
        with Deadline(deadlines, seconds):
            yield

    return limit


async def ends_in_time(limit: Limit) -> None:
    async with limit(LATE):
        await asyncio.sleep(0)


async def never_ends(limit: Limit) -> None:
    async with limit(None):
        await asyncio.sleep(SOON)


async def is_late(limit: Limit) -> None:
    async with limit(SOON):
        await asyncio.sleep(LATE)


async def has_no_time(limit: Limit) -> None:
    async with limit(0):
        await asyncio.sleep(LATE)


async def fails(limit: Limit) -> None:
    async with limit(LATE):
        raise ValueError


async def fails_as_it_is_cancelled(limit: Limit) -> None:
    async with limit(SOON):
        try:
            await asyncio.sleep(LATE)
        finally:
            raise ValueError


async def hears_no_cancel(limit: Limit) -> None:
    async with limit(SOON):
        try:
            await asyncio.sleep(LATE)
        except asyncio.CancelledError:
            await asyncio.sleep(0)


async def is_cancelled(limit: Limit) -> None:
    _cancel_soon()
    async with limit(LATE):
        await asyncio.sleep(LATE)


async def is_cancelled_and_late(limit: Limit) -> None:
    task = asyncio.current_task()
    assert task is not None
    async with limit(SOON):
        try:
            await asyncio.sleep(LATE)
        finally:
            task.cancel()
            await asyncio.sleep(0)


async def inner_is_late(limit: Limit) -> None:
    async with limit(LATE):
        with pytest.raises(TimeoutError):
            await is_late(limit)
        await asyncio.sleep(0)


async def outer_is_late(limit: Limit) -> None:
    async with limit(SOON), limit(LATE):
        await asyncio.sleep(LATE)


async def another_task_is_late(limit: Limit) -> None:
    async with limit(LATE), asyncio.TaskGroup() as group:
        group.create_task(_caught(is_late(limit)))


def _cancel_soon() -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().call_later(SOON, task.cancel)


async def _caught(case: Coroutine[Any, Any, None]) -> None:
    with pytest.raises(TimeoutError):
        await case


async def _told(case: Case, limit: Limit) -> tuple[object, ...]:
    """What a case ends with, what caused it, and how often its task is still asked to cancel."""

    async def run() -> tuple[object, ...]:
        task = asyncio.current_task()
        assert task is not None
        try:
            await case(limit)
        except (asyncio.CancelledError, Exception) as error:
            return type(error), type(error.__cause__), task.cancelling()
        return None, None, task.cancelling()

    return await asyncio.create_task(run())


@pytest.mark.parametrize(
    "case",
    [
        ends_in_time,
        never_ends,
        is_late,
        has_no_time,
        fails,
        fails_as_it_is_cancelled,
        hears_no_cancel,
        is_cancelled,
        is_cancelled_and_late,
        inner_is_late,
        outer_is_late,
        another_task_is_late,
    ],
)
async def test_it_ends_as_with_asyncio(case: Case) -> None:
    assert await _told(case, ours()) == await _told(case, asyncio.timeout)


async def test_each_of_many_has_its_own() -> None:
    """They end, whichever was begun first and whichever has ended meanwhile."""
    deadlines, ended = Deadlines(), list[float]()

    async def one(seconds: float, *, late: bool) -> None:
        with Deadline(deadlines, seconds):
            if not late:
                return
            try:
                await asyncio.sleep(LATE)
            finally:
                ended.append(seconds)

    chosen = [SOON * (1 + place) for place in range(8)]
    calls = [(seconds, late) for seconds in chosen for late in (True, False)]
    random.Random(1).shuffle(calls)  # noqa: S311 - an order, and the same each time
    results = await asyncio.gather(*(one(seconds, late=late) for seconds, late in calls), return_exceptions=True)
    # (Not in this order, where the loop was late for several.)
    assert sorted(ended) == chosen
    assert [type(result) for result in results] == [TimeoutError if late else type(None) for _, late in calls]


async def test_what_has_ended_cancels_nobody() -> None:
    """The timer of a call that has ended fires during the next of the same task."""
    deadlines = Deadlines()
    with Deadline(deadlines, SOON):
        await asyncio.sleep(0)
    with Deadline(deadlines, LATE):
        await asyncio.sleep(3 * SOON)
