"""The matcher: matches receipts that came before their delivery could be found, or before it was held."""

import asyncio

from dispatcher.base.metrics import Metrics
from dispatcher.db.database import Database
from dispatcher.features.receipts import store
from dispatcher.features.receipts.providers.receipt import Identity

MATCH_SECONDS = 5.0
# One transaction each: a round is short, and stopping it loses nothing.
PAGE_RECEIPTS = 500
PAGE_HELD = 500
PAGE_EVENTS = 5_000


class Matcher:
    """Matches waiting receipts. Every replica may: each receipt is taken by one of them."""

    def __init__(self, database: Database, identity: Identity, metrics: Metrics) -> None:
        self._database = database
        self._identity = identity
        self._metrics = metrics

    async def run(self) -> None:
        """Run a round every MATCH_SECONDS."""
        while True:
            await self._database.persist("receipts", self.run_once)
            await asyncio.sleep(MATCH_SECONDS)

    async def run_once(self) -> None:
        """Match, settle and forget once."""
        for provider, outcome in await store.match_waiting(self._database, PAGE_RECEIPTS, self._identity):
            self._metrics.receipts.labels(provider, outcome).inc()
        while await store.settle_held(self._database, PAGE_HELD) == PAGE_HELD:
            pass
        while await store.forget(self._database, PAGE_EVENTS) == PAGE_EVENTS:
            pass
        self._metrics.receipts_waiting.set(await store.waiting(self._database))
