"""The ticker: triggers what is scheduled, one run a tick, whichever of the replicas comes first."""

import asyncio
from collections.abc import Callable, Sequence

import structlog

from dispatcher.base import fault_points
from dispatcher.base.metrics import Metrics
from dispatcher.config.settings import Walk as Settings
from dispatcher.db.database import Database
from dispatcher.features.schedules import store
from dispatcher.features.schedules.rules import Cron
from dispatcher.features.schedules.store import Due, Tick, Ticked

log = structlog.get_logger(__name__)

# Schedules in one transaction: a trigger takes some milliseconds, and what is locked here waits for all of them.
BATCH_MAX = 100
# A year of minutes has half a million: whoever reads the log does not need to know them to the last one.
MISSED_COUNTED_MAX = 1_000


def plan(due: Due) -> Tick:
    """The tick that runs now: the latest of those that have come."""
    cron = Cron(due.cron, due.time_zone)
    at = cron.latest(due.next_at, due.now)
    return Tick(due, at, cron.after(due.now), cron.count(due.next_at, at, MISSED_COUNTED_MAX))


class Ticker:
    """Ticks for one process. `triggered` tells the walker that there are runs."""

    def __init__(self, database: Database, settings: Settings, metrics: Metrics, triggered: Callable[[], None]) -> None:
        self._database = database
        self.settings = settings
        self._metrics = metrics
        self._triggered = triggered
        # Schedules by id that cannot be read here, with their versions: they are left to others.
        self._unreadable: dict[int, int] = {}

    async def run(self) -> None:
        """Tick, for ever; sleep until the next one, but not for so long that a new schedule would be overslept."""
        while True:
            wait = await self._database.persist("tick", self._round)
            await asyncio.sleep(wait)

    async def _round(self) -> float:
        """Tick once. Answers how long there is nothing to do."""
        if await self.run_once():
            return 0.0
        due = await store.next_due(self._database, self._unreadable)
        # What is due and was not taken is another one's; if that one dies over it, we see it at the next look.
        return self.settings.poll_seconds if due is None or due <= 0 else min(due, self.settings.poll_seconds)

    async def run_once(self) -> list[Ticked]:
        """Let one batch have its ticks, and move it on."""
        ticked = await self._transaction()
        self._tell(ticked)
        return ticked

    async def _transaction(self) -> list[Ticked]:
        async with self._database.transaction() as connection:
            batch = await store.take(connection, BATCH_MAX, self._unreadable)
            if not batch:
                return []
            # Years of missed ticks take their time; meanwhile others go on.
            ticked = await store.tick(connection, await asyncio.to_thread(self._plan, batch))
            if fault_points.ARMED:
                fault_points.passing("tick.before_commit")
        if fault_points.ARMED:
            fault_points.passing("tick.committed")
        return ticked

    def _plan(self, batch: Sequence[Due]) -> list[Tick]:
        planned = []
        for due in batch:
            try:
                planned.append(plan(due))
            except Exception:  # what one schedule says keeps no other from ticking
                self._unreadable[due.id] = due.version
                log.exception("schedule.unreadable", **_named(due))
        return planned

    def _tell(self, ticked: Sequence[Ticked]) -> None:
        for one in ticked:
            named, tick = _named(one.tick.due), one.tick.at.isoformat()
            if one.tick.missed:
                log.warning("schedule.missed", **named, before=tick, ticks=one.tick.missed)
                self._metrics.ticks.labels("missed").inc(one.tick.missed)
            if one.run_id is None:
                log.error("schedule.refused", **named, tick=tick, reason=one.refusal)
                self._metrics.ticks.labels("refused").inc()
            else:
                log.info("schedule.ticked", **named, tick=tick, run_id=one.run_id)
                self._metrics.ticks.labels("triggered").inc()
        if any(one.run_id is not None for one in ticked):
            self._triggered()


def _named(due: Due) -> dict[str, str]:
    return {"schedule": due.name, "tenant_id": due.tenant_id, "workspace_id": due.workspace_id}
