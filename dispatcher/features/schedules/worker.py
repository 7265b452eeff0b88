"""The ticker: triggers the workflows of schedules that are due, one run for each tick."""

import asyncio
from collections.abc import Callable, Sequence

import structlog

from dispatcher.base import fault_points
from dispatcher.base.metrics import Metrics
from dispatcher.config.settings import Walk as Settings
from dispatcher.db.database import Database
from dispatcher.db.joint_looks import until_poll
from dispatcher.features.schedules import store
from dispatcher.features.schedules.rules import Cron
from dispatcher.features.schedules.store import Due, Tick, Ticked

log = structlog.get_logger(__name__)

# Schedules in one transaction: a trigger takes some milliseconds, and all of them stay locked until the last.
BATCH_MAX = 100
# A year of minutes has half a million: the log does not need the exact number.
MISSED_COUNTED_MAX = 1_000


def plan(due: Due) -> Tick:
    """Return the tick that runs now, the latest that is due."""
    cron = Cron(due.cron, due.time_zone)
    at = cron.latest(due.next_at, due.now)
    return Tick(due, at, cron.after(due.now), cron.count(due.next_at, at, MISSED_COUNTED_MAX))


class Ticker:
    """The ticker of one process. `triggered` tells the walker that there are runs."""

    def __init__(self, database: Database, settings: Settings, metrics: Metrics, triggered: Callable[[], None]) -> None:
        self._database = database
        self.settings = settings
        self._metrics = metrics
        self._triggered = triggered
        # The versions of schedules that cannot be read here, by id: they are left to other instances.
        self._unreadable: dict[int, int] = {}

    async def run(self) -> None:
        """Tick until cancelled; sleep until the next tick, at most `poll_seconds`, in which a new schedule may come."""
        while True:
            wait = await self._database.persist("tick", self._round)
            await asyncio.sleep(wait)

    async def _round(self) -> float:
        """Tick what is due; return how long to sleep."""
        poll = until_poll(self.settings.poll_seconds)
        due = await store.soonest(self._database)
        if due is not None and due <= 0:
            due = await store.next_due(self._database, self._unreadable)
        if due is None or due > 0:
            return poll if due is None else min(due, poll)
        # A due schedule that was not taken is locked by another instance; if that crashes, the next look finds it.
        return 0.0 if await self.run_once() else poll

    async def run_once(self) -> list[Ticked]:
        """Run the ticks of one batch; return their results."""
        ticked = await self._transaction()
        self._tell(ticked)
        return ticked

    async def _transaction(self) -> list[Ticked]:
        async with self._database.transaction() as connection:
            batch = await store.take(connection, BATCH_MAX, self._unreadable)
            if not batch:
                return []
            # Years of missed ticks take long to count: not on the event loop.
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
            except Exception:  # a faulty schedule does not stop the others
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
