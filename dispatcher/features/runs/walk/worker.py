"""The walker: walks batches of runs, one or two at a time, and settles enrolments that need no walk."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import anyio

from dispatcher.base.clock import Clock
from dispatcher.base.metrics import Metrics
from dispatcher.config.settings import Walk as Settings
from dispatcher.db.database import Database
from dispatcher.features.runs.walk import settling, walking
from dispatcher.features.runs.walk.batch import CRASHES_MAX, BatchWalker, Walked
from dispatcher.features.runs.walk.idling import Idling

# Runs that have crashed their walker are walked alone, so many after each batch: the others do not wait for them.
CRASHED_MAX = 20
# Settling is a fifth of the work of walking: so many batches at once.
SETTLED_SHARE = 4
# Ids of wakes.
NO_WAKE, ANY_WAKE = 0, 2**63 - 1


class Walker:
    """The walker of one process. `woken` ends its sleep; `ordered` tells the claimer that there is work."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        current: Callable[[], int | None],
        clock: Clock,
        metrics: Metrics,
        ordered: Callable[[], None],
        woken: asyncio.Event,
    ) -> None:
        self._database = database
        self.settings = settings
        self._current = current
        self._metrics = metrics
        self._ordered = ordered
        self._woken = woken
        self._first, self._second = (BatchWalker(database, number, clock, metrics) for number in (0, 1))
        # Set while there is more than one batch to walk.
        self._crowded = asyncio.Event()
        self._stopped = False
        # Set when `run` has returned.
        self.ended = asyncio.Event()
        self._idling = Idling(database, clock)

    async def run(self) -> None:
        """Walk until stopped; sleep only when nothing was due."""
        async with anyio.create_task_group() as hands:
            hands.start_soon(self._help)
            await self._walk_on()
        self.ended.set()

    async def _help(self) -> None:
        """Walk other batches beside, while they are full: one is computed while Postgres works on the other."""
        while True:
            await self._crowded.wait()
            self._crowded.clear()
            if self._stopped:
                return
            if (epoch := self._current()) is None:
                continue
            walk = partial(self._second.walk_batch, epoch, self.settings.batch_max, NO_WAKE)
            walked = await self._database.persist("walk", walk)
            if walked.deliveries:
                self._ordered()
            if walked.runs >= self.settings.batch_max:
                self._crowded.set()

    async def _walk_on(self) -> None:
        while not self._stopped:
            polls = not self._woken.is_set()
            self._woken.clear()
            wait = await self._database.persist("walk", partial(self._round, polls=polls))
            if wait > 0:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._woken.wait(), wait)

    def stop(self) -> None:
        """Stop after the walks that are under way."""
        self._stopped = True
        self._woken.set()
        self._crowded.set()

    async def _round(self, *, polls: bool = False) -> float:
        """Walk once; return how long to sleep unless something is woken. `polls`: nothing was."""
        epoch = self._current()
        if epoch is None:
            return self.settings.poll_seconds
        if (wait := await self._idling.rest_on(epoch, self.settings.poll_seconds, polls=polls)) > 0:
            return wait
        walked = await self.run_once(epoch)
        if walked.deliveries:
            self._ordered()
        if walked.runs:
            await self._idling.work(epoch)
            if walked.runs < self.settings.batch_max:
                # Under load a walk of a few runs costs nearly as much as a walk of a hundred.
                await asyncio.sleep(self.settings.linger_seconds)
            return 0.0
        return await self._idling.rest(epoch, self.settings.poll_seconds)

    async def run_once(self, epoch: int) -> Walked:
        """Settle enrolments; walk one batch, some runs that have crashed their walker, and a slow run."""
        settled = await settling.settle(self._database, self.settings.batch_max * SETTLED_SHARE)
        self._metrics.count_run("completed", settled.completed, is_enrolment=True)
        youngest = ANY_WAKE if settled.youngest is None else settled.youngest
        batch = await self._first.walk_batch(epoch, self.settings.batch_max, youngest)
        if batch.runs >= self.settings.batch_max:
            self._crowded.set()
        walked = Walked(settled.runs, 0) + batch
        left = await walking.left_alone(self._database, CRASHES_MAX)
        for _ in range(CRASHED_MAX if left.crashed else 0):
            crashed = await self._first.walk_crashed(epoch)
            walked += crashed
            if not crashed.runs or self._stopped:
                break
        return walked + await self._first.walk_slow(epoch) if left.slow else walked
