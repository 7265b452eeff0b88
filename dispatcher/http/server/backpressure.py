"""Backpressure: while deliveries are dispatched by the thousand, only some requests are worked on at a time.

All of them share one event loop. Each round of it serves every request that is ready, some 100 us each; the dispatcher
needs several rounds for a batch of deliveries. With 32 callers that never pause it was left 0.4 to 0.6 of its own
speed, with 8 at a time 0.7 to 0.9. Few at a time cost more each, since less is written at once, so requests are limited
only while the dispatcher is busy.

A slot is given back after a short time, even if its request goes on: such a request waits for Postgres (for a lock of
an application's transaction, say), which takes nothing of the loop, and eight of those would keep all others out.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, nullcontext

SLOTS = 8
# Ten times what a request takes that waits only for its commit.
SLOT_SECONDS_MAX = 0.25


class RequestSlots:
    """The slots of one process. `is_busy` says whether the dispatcher needs the loop."""

    def __init__(self, is_busy: Callable[[], bool], seconds_max: float = SLOT_SECONDS_MAX) -> None:
        self._is_busy = is_busy
        self._seconds_max = seconds_max
        self._slots = asyncio.Semaphore(SLOTS)

    def slot(self) -> AbstractAsyncContextManager[None]:
        """Return a slot, at once or after others."""
        return self._next() if self._is_busy() else nullcontext()

    @asynccontextmanager
    async def _next(self) -> AsyncIterator[None]:
        await self._slots.acquire()
        with ExitStack() as held:
            held.callback(self._slots.release)
            end = asyncio.get_running_loop().call_later(self._seconds_max, held.close)
            held.callback(end.cancel)
            yield
