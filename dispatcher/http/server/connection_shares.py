"""Shares of the database connections: the requests of one key never have all of them, whatever they wait for.

An application's transaction may keep locked what a request needs, for as long as that takes. Ten such requests would
have all connections, and no other tenant's request would be served meanwhile.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

# Connections on which batches of triggers wait for a lock, of four at least; one more is there for all else.
PATIENT_MAX = 2
LEFT_TO_OTHERS = PATIENT_MAX + 1


class Shares:
    """The shares of one process that has so many connections for its callers."""

    def __init__(self, connections: int) -> None:
        self._each = connections - LEFT_TO_OTHERS
        # A key's share is forgotten when no request of it is under way.
        self._by_key: WeakValueDictionary[int, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def one(self, key_id: int) -> AsyncIterator[None]:
        """Wait until a request with this key may take a connection."""
        share = self._by_key.get(key_id)
        if share is None:
            share = self._by_key[key_id] = asyncio.Semaphore(self._each)
        async with share:
            yield
