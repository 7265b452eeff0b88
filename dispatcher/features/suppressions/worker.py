"""The suppressor: skips what is queued for an address as soon as it is suppressed, or unsubscribes from a topic."""

import asyncio

from dispatcher.db.database import Database
from dispatcher.engine.store import suppression

# A notification is heard at once; a lost one, and a suppression that was cut in half, are made up for by looking.
LOOK_SECONDS = 1.0
PAGE_ADDRESSES = 500


class Suppressor:
    """Catches up with what was said about addresses. `told` is set by whoever hears that there is something."""

    def __init__(self, database: Database, told: asyncio.Event) -> None:
        self._database = database
        self._told = told

    async def run(self) -> None:
        """Catch up, for ever."""
        while True:
            self._told.clear()
            await self._database.persist("suppressions", self.run_once)
            try:
                await asyncio.wait_for(self._told.wait(), LOOK_SECONDS)
            except TimeoutError:
                continue

    async def run_once(self) -> None:
        """Look through what is queued for everybody about whom something was said."""
        while await suppression.catch_up(self._database, PAGE_ADDRESSES):
            pass
