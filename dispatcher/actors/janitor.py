"""The janitor: spent claims, claims whose answer was lost, erasures, and the gauges of the backlog."""

import asyncio
from collections.abc import Callable, Collection, Mapping

import asyncpg
import structlog

from dispatcher.actors.streams import Epoch, Lanes, Tokens
from dispatcher.config import Janitor as Settings
from dispatcher.metrics import Metrics
from dispatcher.store import answers, claims, erasures, held, pauses, suppressions
from dispatcher.store.database import Database

log = structlog.get_logger(__name__)

# A claim that was just answered is not yet known as open for an instant; a lost one can wait this long.
AGE_SECONDS = 5.0
# More are counted as this many: a queue of millions is not worth its scan.
DEPTH_COUNTED_MAX = 100_000
# Some seconds of reading.
ERASURE_PAGES_MAX = 20


class Janitor:
    """Keeps house for whichever epoch this process has now."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        current: Callable[[], Epoch | None],
        metrics: Metrics,
    ) -> None:
        self._database = database
        self.settings = settings
        self._current = current
        self._metrics = metrics
        self.channels: Collection[str] = ()
        # Only channels that have one.
        self.held_timeouts: Mapping[str, float] = {}

    async def run(self) -> None:
        """Keep house, for ever."""
        while True:
            await self._database.persist("housekeeping", self.run_once)
            await asyncio.sleep(self.settings.interval_seconds)

    async def run_once(self) -> None:
        """One round."""
        await claims.drop_spent(self._database, self.settings.page_max, AGE_SECONDS)
        while await held.expire(self._database, self.settings.page_max) == self.settings.page_max:
            pass
        while unserved := await claims.fail_unserved(self._database, self.settings.page_max):
            log.warning("deliveries.unserved", failed=unserved)
        await pauses.unpark(self._database, self.settings.page_max)
        await suppressions.drop_expired(self._database, self.settings.page_max)
        await answers.drop(self._database, self.settings.page_max)
        await self._erase()
        await self._settle_held()
        current = self._current()
        if current is None:
            return
        await self._forget_lost(current.number, current.tokens)
        await self._measure(current.lanes)

    async def _erase(self) -> None:
        """Go on with an erasure that nobody else is at, a little each round: it may be as long as the tables are."""
        try:
            looked = await erasures.look(self._database, pages=ERASURE_PAGES_MAX)
        except (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError):
            # A row that cannot be erased must not keep everything else from being done.
            log.exception("erasure.failed")
            return
        if looked is not None and looked.finished:
            log.info("erasure.finished", erasure=looked.id, deliveries=looked.deliveries, runs=looked.runs)

    async def _settle_held(self) -> None:
        """Evidence settles what is held; and time does, where a channel says so."""
        await held.settle_by_evidence(self._database)
        for channel, seconds in self.held_timeouts.items():
            for one in await held.overdue(self._database, channel, seconds, self.settings.page_max):
                await held.settle(self._database, one, "failed", "dispatcher", f"held for over {seconds:g} s")
        for channel, count in (dict.fromkeys(self.channels, 0) | await held.counts(self._database)).items():
            self._metrics.held.labels(channel).set(count)

    async def _forget_lost(self, epoch: int, tokens: Tokens) -> None:
        """Claims of ours that we know nothing of: their answer was lost. Nobody else frees them while we live."""
        known_before = set(tokens.open)
        for token in await claims.older_than(self._database, epoch, AGE_SECONDS):
            if token not in known_before and token not in tokens.open:
                freed = await claims.forget(self._database, epoch, token)
                log.warning("claim.forgotten", token=token, deliveries=freed)

    async def _measure(self, lanes: Lanes) -> None:
        asked = [(state.channel, state.lane) for state in lanes]
        for one in await claims.depth(self._database, asked, DEPTH_COUNTED_MAX):
            labels = (one.channel, one.lane.name.lower())
            self._metrics.depth.labels(*labels).set(one.deliveries)
            self._metrics.due_age.labels(*labels).set(one.age_seconds)
