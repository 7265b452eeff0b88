"""The gravedigger: finds runs that have killed their walkers; what does it again and again becomes a dead letter."""

import asyncio
from collections.abc import Callable

import structlog

from dispatcher.base.metrics import Metrics
from dispatcher.config.settings import Walk as Settings
from dispatcher.db.database import Database
from dispatcher.features.runs.walk import walking
from dispatcher.features.runs.walk.worker import TAKES_MAX

log = structlog.get_logger(__name__)

# Wakes of runs that are gone are few.
ORPHANS_EVERY = 60


class Gravedigger:
    """Looks for walks whose walker is gone, for whichever process it was."""

    def __init__(self, database: Database, settings: Settings, metrics: Metrics, suspected: Callable[[], None]) -> None:
        self._database = database
        self.settings = settings
        self._metrics = metrics
        self._suspected = suspected
        self._looks = 0

    async def run(self) -> None:
        """Look, for ever."""
        while True:
            await self._database.persist("gravedigger", self.run_once)
            await asyncio.sleep(self.settings.poll_seconds)

    async def run_once(self) -> None:
        """Look once."""
        for run_id in await walking.bury(self._database, TAKES_MAX):
            log.error("run.poison", run_id=run_id)
            self._metrics.runs.labels("failed").inc()
        if self._looks % ORPHANS_EVERY == 0:
            await walking.forget_orphans(self._database)
        self._looks += 1
        suspects = await walking.count_deaths(self._database)
        if suspects:
            log.warning("walk.died", runs=len(suspects))
            self._suspected()
