"""Shares: of the connections to the database one key leaves some to the others, whatever its requests wait for.

An application's transaction may keep locked what a request needs, for as long as that takes. Ten such requests would
have all connections, and nobody else, of whichever tenant, would be served meanwhile.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

# Connections on which batches of triggers wait for a lock, of four at least; one more is there for all else.
PATIENT_MAX = 2
LEFT_TO_OTHERS = PATIENT_MAX + 1


class Shares:
    """Those of one process, which has so many connections for its callers."""

    def __init__(self, connections: int) -> None:
        self._each = connections - LEFT_TO_OTHERS
        # A key's is forgotten when no request of it is under way.
        self._of: WeakValueDictionary[int, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def one(self, key_id: int) -> AsyncIterator[None]:
        """The right to a connection for a request with a key, at once or after others of its."""
        share = self._of.get(key_id)
        if share is None:
            share = self._of[key_id] = asyncio.Semaphore(self._each)
        async with share:
            yield
