"""The recoverer: fences epochs that have fallen silent, and recovers claims without a living owner."""

import asyncio
from collections.abc import Callable, Sequence

import structlog
from msgspec import structs

from dispatcher.base import fault_points
from dispatcher.base.clock import Clock
from dispatcher.base.metrics import Metrics
from dispatcher.db.database import PASSING, Database
from dispatcher.db.joint_looks import until_poll
from dispatcher.engine.rules.liveness import Watch
from dispatcher.engine.store import instances
from dispatcher.engine.streams import Epoch

log = structlog.get_logger(__name__)

PAGE_CLAIMS = 100
# Silence counts from the first look after the last beat, and is noticed by the first look after the lease: two looks of
# the two seconds that a takeover has.
LOOKS_A_HEARTBEAT = 4
# A mark under way holds the row for milliseconds; a session that was cut off silently holds it until TCP notices.
FENCE_LOCK_MILLISECONDS_MAX = 2_000


class Recoverer:
    """Watches the other instances. It is outside of any epoch, and runs on while the pipeline restarts."""

    def __init__(
        self,
        database: Database,
        heartbeat_seconds: float,
        config_hash: str,
        current: Callable[[], Epoch | None],
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._database = database
        self._interval_seconds = heartbeat_seconds / LOOKS_A_HEARTBEAT
        self._current = current
        self._clock = clock
        self._metrics = metrics
        self._watch = Watch(heartbeat_seconds)
        self.config_hash = config_hash
        self._different: list[str] = []

    async def run(self) -> None:
        """Watch and recover, for ever."""
        while True:
            await self._database.persist("recovery", self.run_once)
            await asyncio.sleep(until_poll(self._interval_seconds))

    async def run_once(self) -> None:
        """Fence silent epochs, then recover claims without a live owner."""
        alive, orphaned = await instances.look(self._database)
        self._compare(alive)
        beats = {beat.epoch: (beat.beat, beat.lease_seconds) for beat in alive}
        stale = self._watch.stale(self._clock.monotonic(), beats)
        for epoch in stale:
            await self.fence(epoch)
        if orphaned or stale:
            await self.recover()
        self._metrics.instances.set(len(beats))

    def _compare(self, alive: Sequence[instances.Beat]) -> None:
        """Report replicas with another configuration: limits for all replicas mean something else to them."""
        # After a reload our own row says the old one until the next heartbeat.
        current = self._current()
        ours = None if current is None else current.number
        different = sorted(beat.name for beat in alive if beat.config_hash != self.config_hash and beat.epoch != ours)
        if different != self._different:
            self._different = different
            log.warning("config.differs", instances=different) if different else log.info("config.agrees")
        self._metrics.config_differs.set(len(different))

    async def fence(self, epoch: int) -> None:
        """Delete an epoch; where its row cannot be locked now, the next round tries again."""
        try:
            if await instances.fence(self._database, epoch, FENCE_LOCK_MILLISECONDS_MAX):
                if fault_points.ARMED:
                    fault_points.passing("recovery.fenced")
                self._metrics.fenced_instances.inc()
                log.warning("instance.fenced", epoch=epoch)
        except PASSING as trouble:
            log.warning("instance.fence_failed", epoch=epoch, error=type(trouble).__name__)

    async def recover(self) -> None:
        """Recover page by page until there is nothing to recover."""
        while True:
            page = await instances.recover(self._database, PAGE_CLAIMS)
            if page.claims:
                counts = structs.asdict(page)
                log.warning("claims.recovered", **counts)
                for became in ("requeued", "retried", "held", "poisoned"):
                    self._metrics.recovered.labels(became).inc(counts[became])
                if fault_points.ARMED:
                    fault_points.passing("recovery.done")
            if page.claims < PAGE_CLAIMS:
                return
