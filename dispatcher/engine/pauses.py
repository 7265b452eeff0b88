"""The controls: what operators have paused, as every instance must know it within a second."""

import asyncio

from dispatcher.db.database import Database
from dispatcher.engine.rules.pauses import Pauses
from dispatcher.engine.store import pauses

# A notification is heard at once; a lost one is made up for by looking this often.
LOOK_SECONDS = 0.5
UNPARKED_PAGE = 1_000


class PauseReader:
    """Keeps the open pauses at hand. `changed` is set by whoever hears that there are others."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.changed = asyncio.Event()
        self.pauses = Pauses()
        # Set when there are other pauses: what was paused may be claimed again.
        self.woken: asyncio.Event | None = None
        self._unparking = False

    async def run(self) -> None:
        """Look, for ever."""
        while True:
            self.changed.clear()
            await self._database.persist("controls", self.run_once)
            try:
                await asyncio.wait_for(self.changed.wait(), LOOK_SECONDS)
            except TimeoutError:
                continue

    async def run_once(self) -> None:
        """See what is paused; what waited for a pause that is over is made ready, a page at a time."""
        seen = await pauses.current(self._database)
        if seen != self.pauses:
            self.pauses = seen
            self._unparking = True
            if self.woken is not None:
                self.woken.set()
        if self._unparking:
            while await pauses.unpark(self._database, UNPARKED_PAGE) == UNPARKED_PAGE:
                pass
            self._unparking = False
