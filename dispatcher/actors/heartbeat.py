"""The heartbeat: proves to others that this epoch lives, and finds out when they think otherwise."""

import asyncio

from dispatcher.errors import Fenced
from dispatcher.store import instances
from dispatcher.store.database import Database


class Heartbeat:
    """Beats for one epoch until it is fenced."""

    def __init__(self, database: Database, epoch: int, interval_seconds: float) -> None:
        self._database = database
        self._epoch = epoch
        self._interval_seconds = interval_seconds

    async def run(self) -> None:
        """Beat, for ever."""
        while True:
            await self.run_once()
            await asyncio.sleep(self._interval_seconds)

    async def run_once(self) -> None:
        """One beat. Raises when our row is gone: then everything that we had claimed is somebody else's."""
        if not await self._database.persist("heartbeat", lambda: instances.beat(self._database, self._epoch)):
            raise Fenced
