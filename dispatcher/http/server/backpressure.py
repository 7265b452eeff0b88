"""Turns: while deliveries are dispatched by the thousand, only some requests are worked on at a time.

All of them share one loop. Each round of it serves every request that is ready, some 100 us each; the dispatcher needs
several rounds for a batch of deliveries. With 32 callers that never pause it was left 0.4 to 0.6 of its own speed, with
8 at a time 0.7 to 0.9. Few at a time cost more each, since less is written together: so that is only while it matters.

A turn ends by itself: whoever takes longer waits for Postgres (for the lock of an application's transaction, say),
which takes nothing of the loop, and eight of those would keep everybody else out.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, nullcontext

PRESSED_TURNS = 8
# Ten times what a request takes that waits for nothing but its commit.
TURN_SECONDS_MAX = 0.25


class Turns:
    """Those of one process. `pressed` says whether the dispatcher needs the loop."""

    def __init__(self, pressed: Callable[[], bool], seconds_max: float = TURN_SECONDS_MAX) -> None:
        self._pressed = pressed
        self._seconds_max = seconds_max
        self._turns = asyncio.Semaphore(PRESSED_TURNS)

    def one(self) -> AbstractAsyncContextManager[None]:
        """A turn, at once or after others."""
        return self._next() if self._pressed() else nullcontext()

    @asynccontextmanager
    async def _next(self) -> AsyncIterator[None]:
        await self._turns.acquire()
        with ExitStack() as turn:
            turn.callback(self._turns.release)
            end = asyncio.get_running_loop().call_later(self._seconds_max, turn.close)
            turn.callback(end.cancel)
            yield
