"""The recorder of throughput, and the sampler of what goes on in all workspaces."""

import asyncio
import time
from collections.abc import Callable

from dispatcher.base.ended import Ended
from dispatcher.config.settings import Config
from dispatcher.db.database import Database
from dispatcher.features.overview import gaps, store
from dispatcher.features.overview.models import System

# Live figures are at most two seconds old: one until they are written, one until they are read.
RECORD_SECONDS = 1.0
SAMPLE_SECONDS = 0.9
# Between two rounds of forgetting.
FORGET_SECONDS = 60.0


class Recorder:
    """Writes what this process has counted, once a second."""

    def __init__(self, database: Database, epoch: Callable[[], int | None], ended: Ended) -> None:
        self._database = database
        self._epoch = epoch
        self._ended = ended
        self._forgotten_at = float("-inf")

    async def run(self) -> None:
        """Record, for ever."""
        while True:
            await asyncio.sleep(RECORD_SECONDS)
            await self.run_once()

    async def run_once(self) -> None:
        """Record what was counted since the last time. While there is no epoch it is kept."""
        epoch = self._epoch()
        if epoch is None:
            return
        if counts := self._ended.take():
            await self._database.persist("throughput", lambda: store.record(self._database, epoch, counts))
        if time.monotonic() - self._forgotten_at >= FORGET_SECONDS:
            self._forgotten_at = time.monotonic()
            await self._database.persist("throughput", lambda: store.forget(self._database))


class Sampler:
    """Looks at all workspaces, for however many ask at the same time."""

    def __init__(self, database: Callable[[], Database], config: Callable[[], Config]) -> None:
        self._database = database
        self._config = config
        self._looking: asyncio.Task[System] | None = None
        self._looked_at = float("-inf")

    async def system(self) -> System:
        """Return what goes on: at most a second old."""
        if self._looking is None or (self._looking.done() and time.monotonic() - self._looked_at >= SAMPLE_SECONDS):
            self._looked_at = time.monotonic()
            self._looking = asyncio.create_task(self._look())
        return await asyncio.shield(self._looking)

    async def _look(self) -> System:
        database, config = self._database(), self._config()
        backlog = await store.backlog(database, sorted(config.channels))
        replicas = await store.replicas(database)
        return System(
            throughput=await store.throughput(database, "", ""),
            backlog=backlog,
            replicas=replicas,
            lacks=gaps.lacks(config, replicas, backlog),
        )
