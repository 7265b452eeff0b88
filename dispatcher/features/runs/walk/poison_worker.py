"""The poison worker: finds runs that crashed their walker; those that do it repeatedly become dead letters."""

import asyncio
from collections.abc import Callable

import structlog

from dispatcher.base.metrics import Metrics
from dispatcher.config.settings import Walk as Settings
from dispatcher.db.database import Database
from dispatcher.db.joint_looks import until_poll
from dispatcher.features.runs.walk import enrolments, walking
from dispatcher.features.runs.walk.batch import CRASHES_MAX

log = structlog.get_logger(__name__)

# Wakes of runs that are gone are few.
ORPHANS_EVERY = 60


class PoisonWorker:
    """Looks for walks of instances that are gone."""

    def __init__(self, database: Database, settings: Settings, metrics: Metrics, crashed: Callable[[], None]) -> None:
        self._database = database
        self.settings = settings
        self._metrics = metrics
        self._crashed = crashed
        self._rounds = 0

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self._database.persist("poison", self.run_once)
            await asyncio.sleep(until_poll(self.settings.poll_seconds))

    async def run_once(self) -> None:
        """Look once."""
        if await walking.is_poison_wanted(self._database):
            await self._work()
        if self._rounds % ORPHANS_EVERY == 0:
            await walking.delete_orphaned_wakes(self._database)
        self._rounds += 1

    async def _work(self) -> None:
        while await enrolments.free(self._database) == enrolments.PAGE:
            self._crashed()
        for run in await walking.fail_poison(self._database, CRASHES_MAX):
            log.error("run.poison", run_id=run.id)
            self._metrics.count_run("failed", is_enrolment=run.is_enrolment)
        crashed = await walking.count_crashes_of_gone_instances(self._database)
        if crashed:
            log.warning("walk.died", runs=len(crashed))
            self._crashed()
