"""Strangers: bodies that anybody may send, since the pages that take them need no key; only so many are read at a time.

Whoever sends one in earnest is done in a moment. One that does not come would keep a place that others need: the oldest
of them goes where there are too many, so that no crowd keeps a provider out, nor callers who show a key.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

# A small part of the requests that are served at a time.
BODIES_MAX = 32
BODY_SECONDS_MAX = 10.0


class Strangers:
    """Those of one page."""

    def __init__(self) -> None:
        # By age.
        self._reading: dict[asyncio.Timeout, None] = {}

    @asynccontextmanager
    async def body(self) -> AsyncIterator[None]:
        """Read one. TimeoutError where it does not come in time, or has to give way to others."""
        async with asyncio.timeout(BODY_SECONDS_MAX) as end:
            self._reading[end] = None
            if len(self._reading) > BODIES_MAX:
                oldest = next(iter(self._reading))
                del self._reading[oldest]
                if not oldest.expired():
                    oldest.reschedule(asyncio.get_running_loop().time())
            try:
                yield
            finally:
                self._reading.pop(end, None)
