"""The kills: what was done to which replica, what it had in its hands, and how long others took to recover that."""

import asyncio
import time
from collections.abc import Collection

from msgspec import Struct, field

from dispatcher.selftest.database_state import DatabaseState
from dispatcher.selftest.plan import KillKind

# What the server had in hand when its client died is done by then.
SETTLE_SECONDS = 0.03
LOOK_SECONDS = 0.05
RECOVERY_SECONDS_MAX = 120.0


class Kill(Struct):
    """One of them. `what` says more: the fault point, or nothing."""

    kind: KillKind
    replica: str
    what: str
    at: float
    epochs: frozenset[int] = frozenset()
    in_flight: dict[str, int] = field(default_factory=dict)
    recovered_seconds: float | None = None
    # It was stopped, and nobody took over before it went on.
    survived: bool = False
    exit_seconds: float | None = None
    exit_code: int | None = None


class Kills:
    """Keeps the list, and follows each to its end."""

    def __init__(self, state: DatabaseState) -> None:
        self._state = state
        self._following: set[asyncio.Task[None]] = set()
        self.list: list[Kill] = []
        # Processes that ended although nobody had done anything to them.
        self.unasked: list[str] = []

    def note(self, kind: KillKind, replica: str, what: str = "") -> Kill:
        """It has just happened."""
        kill = Kill(kind, replica, what, time.monotonic(), frozenset(self._state.epochs.get(replica, ())))
        self.list.append(kill)
        task = asyncio.create_task(self._follow(kill))
        self._following.add(task)
        task.add_done_callback(self._following.discard)
        return kill

    async def _follow(self, kill: Kill) -> None:
        await asyncio.sleep(SETTLE_SECONDS)
        # It may have joined under an epoch that nobody had seen yet.
        await self._state.at_work()
        kill.epochs = frozenset(self._state.epochs.get(kill.replica, ()))
        kill.in_flight = await self._state.marked(kill.epochs)
        while time.monotonic() < kill.at + RECOVERY_SECONDS_MAX and not kill.survived:
            if await self._recovered(kill.epochs):
                kill.recovered_seconds = time.monotonic() - kill.at
                return
            await asyncio.sleep(LOOK_SECONDS)

    async def _recovered(self, epochs: Collection[int]) -> bool:
        for epoch in epochs:
            if not await self._state.recovered(epoch):
                return False
        return True

    @property
    def unrecovered(self) -> int:
        """How many have left something that nobody has taken over yet."""
        return len(self._following)

    async def followed(self) -> None:
        """Return when each has been followed to its end."""
        await asyncio.gather(*self._following)

    def disturbed(self) -> set[int]:
        """The epochs that may leave something held: those of whom nobody asked whether they were ready."""
        return {epoch for kill in self.list if kill.kind != "term" for epoch in kill.epochs}
