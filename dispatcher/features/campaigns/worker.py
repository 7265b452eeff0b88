"""The expander: turns jobs of campaign runs into deliveries just in time, and closes what is done."""

import asyncio
from collections.abc import Callable

import anyio
import asyncpg
import structlog

from dispatcher.base import fault_points
from dispatcher.base.clock import Clock
from dispatcher.base.metrics import Metrics
from dispatcher.config.settings import Campaigns as Settings
from dispatcher.db.database import PASSING, Database
from dispatcher.engine.streams import Precedence
from dispatcher.features.campaigns import expansion

log = structlog.get_logger(__name__)

# Jobs whose results are counted in one transaction: some milliseconds.
CLOSED_AT_ONCE = 200
# Deliveries of cancelled runs that one transaction locks: marks that meet it wait for it.
SKIPPED_AT_ONCE = 1_000
TAKEN_BACK_AT_ONCE = 100
# While a run is open its results are counted this often at least.
OPEN_SECONDS = 0.1
# How often dead owners, deferred deliveries and finished runs are looked for.
LOOK_SECONDS = 1.0
# Before a job is expanded again whose expansion has failed.
RETRY_SECONDS = 5.0
RELEASE_SECONDS_MAX = 2.0
REASON_CHARACTERS_MAX = 300
# There is nothing to do until a poll says that there is.
IDLE = float("inf")


class Expander:
    """Expands and closes for one process. `woken` ends its sleep; `ordered` tells the claimer that there is work."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        current: Callable[[], int | None],
        clock: Clock,
        metrics: Metrics,
        ordered: Callable[[], None],
        woken: asyncio.Event,
        *,
        precedence: Precedence,
    ) -> None:
        self._database = database
        self.settings = settings
        self._current = current
        self._clock = clock
        self._metrics = metrics
        self._ordered = ordered
        self._woken = woken
        self._precedence = precedence
        self._epoch: int | None = None
        self._looked_at = float("-inf")

    async def run(self) -> None:
        """Expand and close, for ever. What is locked and not expanded at the end is free for others."""
        try:
            while True:
                self._woken.clear()
                wait = await self._database.persist("campaigns", self.run_once)
                if wait == IDLE:
                    poll = self.settings.poll_seconds
                    await self._database.until_work("campaigns", expansion.IS_WANTED, self._woken, poll)
                elif wait > 0:
                    await self._sleep(wait)
        finally:
            with anyio.CancelScope(shield=True):
                await self._release()

    async def _sleep(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._woken.wait(), seconds)
        except TimeoutError:
            return

    async def run_once(self) -> float:
        """Close what is done, and expand jobs for a while. Return for how long there is nothing to do, or IDLE."""
        if not await expansion.is_wanted(self._database):
            return IDLE
        closed = await expansion.close(self._database, CLOSED_AT_ONCE)
        skipped = await expansion.skip_cancelled(self._database, SKIPPED_AT_ONCE)
        await expansion.space(self._database)
        epoch = self._current()
        if epoch is None:
            return self.settings.poll_seconds
        if self._epoch not in (None, epoch):
            await self._release()
        self._epoch = epoch
        await self._look(epoch)
        if await self._expand_some(epoch) or skipped:
            return 0.0
        return OPEN_SECONDS if closed or await expansion.some_open(self._database) else self.settings.poll_seconds

    async def _expand_some(self, epoch: int) -> int:
        """Expand jobs until results are due to be counted again; return how many."""
        until = self._clock.monotonic() + OPEN_SECONDS
        done = 0
        while (job_id := await expansion.lock(self._database, epoch, self.settings.ahead_max)) is not None:
            if fault_points.ARMED:
                fault_points.passing("expand.locked")
            await self._precedence.give()
            began = self._clock.monotonic()
            if not await self._expand(epoch, job_id):
                break
            # A job takes a processor for 20 to 40 ms, and cannot be cut.
            await self._precedence.rest(self._clock.monotonic() - began)
            done += 1
            if self._clock.monotonic() >= until:
                break
        return done

    async def _expand(self, epoch: int, job_id: int) -> bool:
        """Expand a job, or note why it cannot be. False: somebody else has it, or keeps it locked."""
        try:
            async with self._database.transaction() as connection:
                written = await expansion.expand(connection, epoch, job_id)
                if fault_points.ARMED:
                    fault_points.passing("expand.before_commit")
        except PASSING:
            raise
        except asyncpg.PostgresError as fault:
            # Its rows, or a trigger of an application's: it must not keep other jobs from being expanded.
            reason = f"expansion: {type(fault).__name__}: {fault}"[:REASON_CHARACTERS_MAX]
            became = await expansion.fail(self._database, epoch, job_id, reason, RETRY_SECONDS)
            self._metrics.campaign_jobs.labels("dead" if became == "dead" else "failed").inc()
            log.exception("campaign.expansion_failed", job_id=job_id, became=became)
            return True
        if fault_points.ARMED:
            fault_points.passing("expand.committed")
        if written is not None:
            self._metrics.campaign_jobs.labels("expanded").inc()
            self._ordered()
        return written is not None

    async def _look(self, epoch: int) -> None:
        now = self._clock.monotonic()
        if now - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = now
        back = await expansion.take_back(self._database, epoch, self.settings.lock_seconds, TAKEN_BACK_AT_ONCE)
        if back.queued or back.dead:
            self._metrics.campaign_jobs.labels("taken_back").inc(back.queued)
            self._metrics.campaign_jobs.labels("dead").inc(back.dead)
            log.warning("campaign.jobs_taken_back", queued=back.queued, dead=back.dead)
        await expansion.count_deferred(self._database, self.settings.ahead_max)
        wrong = await expansion.check_counters(self._database)
        if wrong:
            self._metrics.campaign_repairs.inc(wrong)
            log.error("campaign.counters_repaired", jobs=wrong)

    async def _release(self) -> None:
        """Free what the last epoch has locked. Where Postgres is away, others take it back."""
        if self._epoch is None:
            return
        try:
            async with asyncio.timeout(RELEASE_SECONDS_MAX):
                await expansion.release(self._database, self._epoch)
        except PASSING as trouble:
            log.warning("campaign.jobs_left_locked", error=type(trouble).__name__)
