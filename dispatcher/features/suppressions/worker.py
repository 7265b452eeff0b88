"""The suppressor: skips queued deliveries as soon as their address is suppressed or unsubscribes from their topic."""

import asyncio

from dispatcher.db.database import Database
from dispatcher.engine.store import suppression

# A notification wakes it at once; polling makes up for lost notifications and interrupted runs.
POLL_SECONDS = 1.0
PAGE_ADDRESSES = 500


class Suppressor:
    """The actor that applies changes of suppressions. `wake` is set when there are some."""

    def __init__(self, database: Database, wake: asyncio.Event) -> None:
        self._database = database
        self._wake = wake

    async def run(self) -> None:
        """Apply changes, forever."""
        while True:
            self._wake.clear()
            await self._database.persist("suppressions", self.run_once)
            await self._database.until_work("suppressions", suppression.IS_BEHIND, self._wake, POLL_SECONDS)

    async def run_once(self) -> None:
        """Apply all changes to what is queued."""
        while await suppression.catch_up(self._database, PAGE_ADDRESSES):
            pass
