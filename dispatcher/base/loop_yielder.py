"""Yielding the event loop: long work lets other tasks run every few milliseconds."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

# Work without a break: others that take as long are hardly noticed.
WORK_SECONDS_MAX = 0.005

T = TypeVar("T")


class LoopYielder:
    """The breaks of one piece of work."""

    def __init__(self, seconds_max: float = WORK_SECONDS_MAX) -> None:
        self._seconds_max = seconds_max
        self._end = time.monotonic() + seconds_max

    async def take(self) -> None:
        """Let others run if a break is due."""
        if self.is_due():
            await asyncio.sleep(0)
            self._end = time.monotonic() + self._seconds_max

    def is_due(self) -> bool:
        return time.monotonic() >= self._end


async def yielding(several: Iterable[T]) -> AsyncIterator[T]:
    """Yield each of several, with breaks between them."""
    yielder = LoopYielder()
    for one in several:
        if yielder.is_due():
            await yielder.take()
        yield one
