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

# For an instant a claim is not yet known as open; a lost claim can wait this long.
AGE_SECONDS = 5.0
# More deliveries are counted as this many: a queue of millions is not worth its scan.
DEPTH_COUNTED_MAX = 100_000
# A feature's work in each round, on a bounded number of rows.
Chore = Callable[[Database, int], Awaitable[object]]


class Janitor:
    """Cleans up for the epoch that this process has now."""

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
        # Of the channels that have a time-out.
        self.held_timeouts: Mapping[str, float] = {}

    async def run(self) -> None:
        """Clean up, for ever."""
        while True:
            await self._database.persist("housekeeping", self.run_once)
            await asyncio.sleep(self.settings.interval_seconds)

    async def run_once(self) -> None:
        """Clean up once."""
        database, page = self._database, self.settings.page_max
        await claims.drop_spent(database, page, AGE_SECONDS)
        while await held.expire(database, page) == page:
            pass
        while unserved := await claims.fail_unserved(database, page):
            log.warning("deliveries.unserved", failed=unserved)
        for chore in (pauses.unpark, suppression.drop_expired, *self._chores):
            await chore(database, page)
        await self._settle_held()
        if (current := self._current()) is not None:
            await self._forget_lost(current.number, current.tokens)
            await self._measure(current.lanes)

    async def _settle_held(self) -> None:
        """Settle what is held by evidence, and by time where the channel has a time-out."""
        await held.settle_by_evidence(self._database)
        for channel, seconds in self.held_timeouts.items():
            for one in await held.overdue(self._database, channel, seconds, self.settings.page_max):
                await held.settle(self._database, one, "failed", "dispatcher", f"held for over {seconds:g} s")
        for channel, count in (dict.fromkeys(self.channels, 0) | await held.counts(self._database)).items():
            self._metrics.held.labels(channel).set(count)

    async def _forget_lost(self, epoch: int, tokens: Tokens) -> None:
        """Free claims of ours whose answer was lost: nobody else frees them while we live."""
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
