"""Turns: while deliveries are dispatched by the thousand, only some requests are worked on at a time.

All of them share one loop. Each round of it serves every request that is ready, some 100 us each; the dispatcher needs
several rounds for a batch of deliveries. With 32 callers that never pause it was left 0.4 to 0.6 of its own speed, with
8 at a time 0.7 to 0.9. Few at a time cost more each, since less is written together: so that is only while it matters.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

PRESSED_TURNS = 8


class Turns:
    """Those of one process. `pressed` says whether the dispatcher needs the loop."""

    def __init__(self, pressed: Callable[[], bool]) -> None:
        self._pressed = pressed
        self._turns = asyncio.Semaphore(PRESSED_TURNS)

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """A turn, at once or after others."""
        if not self._pressed():
            yield
            return
        async with self._turns:
            yield
