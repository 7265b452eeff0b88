"""The loop watch shows what this process held the loop for, and forgets it after a while."""

import asyncio
import time

from dispatcher.base.loop_watch import WINDOW_SECONDS, LoopWatch
from tests.support.waits import until

HELD_SECONDS = 0.2


async def test_a_step_that_holds_the_loop_is_seen() -> None:
    watch = LoopWatch()
    watching = asyncio.create_task(watch.run())
    await asyncio.sleep(0)
    end = time.process_time() + HELD_SECONDS
    while time.process_time() < end:
        pass
    await until(watch.longest_seconds, "the hold is seen")
    watching.cancel()
    assert watch.longest_seconds() > HELD_SECONDS / 2


def test_the_longest_hold_is_shown_for_a_minute_and_then_forgotten() -> None:
    watch, now = LoopWatch(), time.monotonic()
    watch.note(0.3, now)
    watch.note(0.1, now + WINDOW_SECONDS)
    assert watch.longest_seconds() == 0.3
    watch.note(0.2, now + 2 * WINDOW_SECONDS)
    assert watch.longest_seconds() == 0.2
