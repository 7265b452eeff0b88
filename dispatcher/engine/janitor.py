"""The janitor: spent claims, claims whose answer was lost, chores of features, and the gauges of the backlog."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

import structlog

from dispatcher.base.metrics import Metrics
from dispatcher.config.settings import Janitor as Settings
from dispatcher.db.database import Database
from dispatcher.engine.store import claims, held, pauses, suppression
from dispatcher.engine.streams import Epoch, Lanes, Tokens

log = structlog.get_logger(__name__)

# A claim that was just answered is not yet known as open for an instant; a lost one can wait this long.
AGE_SECONDS = 5.0
# More are counted as this many: a queue of millions is not worth its scan.
DEPTH_COUNTED_MAX = 100_000
# What a feature has done each round, with a number of rows at most.
Chore = Callable[[Database, int], Awaitable[object]]


class Janitor:
    """Keeps house for whichever epoch this process has now."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        current: Callable[[], Epoch | None],
        metrics: Metrics,
        chores: Sequence[Chore] = (),
    ) -> None:
        self._chores = chores
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
        await suppression.drop_expired(self._database, self.settings.page_max)
        for chore in self._chores:
            await chore(self._database, self.settings.page_max)
        await self._settle_held()
        current = self._current()
        if current is None:
            return
        await self._forget_lost(current.number, current.tokens)
        await self._measure(current.lanes)

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
