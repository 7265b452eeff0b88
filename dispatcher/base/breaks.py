"""Breaks: what has much to do on the event loop lets others have their turn from time to time."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

# What is done without a break: others who take as long are hardly noticed.
WORK_SECONDS_MAX = 0.005

T = TypeVar("T")


class Breaks:
    """Those of one piece of work."""

    def __init__(self, seconds_max: float = WORK_SECONDS_MAX) -> None:
        self._seconds_max = seconds_max
        self._end = time.monotonic() + seconds_max

    async def take(self) -> None:
        """Take one if it is time."""
        if self.is_due():
            await asyncio.sleep(0)
            self._end = time.monotonic() + self._seconds_max

    def is_due(self) -> bool:
        """Whether it is time for one."""
        return time.monotonic() >= self._end


async def with_breaks(several: Iterable[T]) -> AsyncIterator[T]:
    """Each of several, with breaks between them."""
    breaks = Breaks()
    for one in several:
        await breaks.take()
        yield one
