"""The pause reader: what operators have paused and limited, as every instance must know it within a second."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from dispatcher.db.database import Database
from dispatcher.db.joint_looks import until_poll
from dispatcher.engine.rules.life import Claimed
from dispatcher.engine.rules.pauses import Pauses
from dispatcher.engine.store import pauses
from dispatcher.engine.store.marks import LimitedMark
from dispatcher.engine.streams import Wakes

# A notification acts at once; this interval makes up for a lost one.
LOOK_SECONDS = 0.5
UNPARKED_PAGE = 1_000


class Limits(Protocol):
    """What a feature knows of limits of recipients."""

    async def run_once(self) -> None:
        """Read them once."""

    def limited(self, batch: Sequence[Claimed]) -> LimitedMark | None:
        """Return the mark of a batch that a limit may be about; None for the engine's own."""


class PauseReader:
    """Holds the open pauses, and has the limits read beside them. `changed` asks for another look."""

    def __init__(self, database: Database, limits: Limits | None = None) -> None:
        self._database = database
        self._limits = limits
        self.changed = asyncio.Event()
        self.pauses = Pauses()
        # Set when the pauses have changed: what was paused may be claimed again.
        self.woken: Wakes | None = None
        self._unparking = False
        self._reads_limits = True

    async def run(self) -> None:
        """Read the pauses, for ever."""
        while True:
            self.changed.clear()
            await self._database.persist("controls", self.run_once)
            try:
                await asyncio.wait_for(self.changed.wait(), until_poll(LOOK_SECONDS))
                self._reads_limits = True
            except TimeoutError:
                # Limits, which hold for hours, are looked at once a second, when others look.
                self._reads_limits = until_poll(2 * LOOK_SECONDS) > LOOK_SECONDS

    async def run_once(self) -> None:
        """Read the pauses once, and make ready what waited for one that is over, a page at a time."""
        seen = await pauses.current(self._database)
        if seen != self.pauses:
            self.pauses = seen
            self._unparking = True
            if self.woken is not None:
                self.woken.set()
        if self._limits is not None and self._reads_limits:
            await self._limits.run_once()
        if self._unparking:
            while await pauses.unpark(self._database, UNPARKED_PAGE) == UNPARKED_PAGE:
                pass
            self._unparking = False

    def limited(self, batch: Sequence[Claimed]) -> LimitedMark | None:
        """Return the mark of a batch that a limit may be about."""
        return None if self._limits is None else self._limits.limited(batch)
