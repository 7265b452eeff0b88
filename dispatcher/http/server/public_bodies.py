"""Bodies on public pages: these pages need no key, so only a few bodies are read at a time.

An honest sender is done in a moment. When there are too many, the oldest body that has not arrived is given up, so that
no crowd keeps out a provider or the callers with a key.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

# A small part of the requests that are served at a time.
BODIES_MAX = 32
BODY_SECONDS_MAX = 10.0


class PublicBodies:
    """The bodies that one page is reading."""

    def __init__(self) -> None:
        # Oldest first.
        self._reading: dict[asyncio.Timeout, None] = {}

    @asynccontextmanager
    async def body(self) -> AsyncIterator[None]:
        """Read one. Raises TimeoutError if it does not arrive in time, or has to give way to others."""
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
