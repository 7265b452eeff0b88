"""The kills: what was done to which replica, what it had marked, and how long others took to recover it."""

import asyncio
import time

from msgspec import Struct, field

from dispatcher.selftest.database_state import DatabaseState
from dispatcher.selftest.plan import KillKind

# What the server had in hand when its client died is done by then.
SETTLE_SECONDS = 0.03
LOOK_SECONDS = 0.05
RECOVERY_SECONDS_MAX = 120.0


class Kill(Struct):
    """One kill. `what` is the fault point, or empty."""

    kind: KillKind
    replica: str
    what: str
    at: float
    epochs: frozenset[int] = frozenset()
    in_flight: dict[str, int] = field(default_factory=dict)
    recovered_seconds: float | None = None
    # It was stopped, and no replica took over before it went on.
    survived: bool = False
    exit_seconds: float | None = None
    exit_code: int | None = None


class Kills:
    """The list of kills; each is followed to its end."""

    def __init__(self, state: DatabaseState) -> None:
        self._state = state
        self._following: set[asyncio.Task[None]] = set()
        self.list: list[Kill] = []
        # Processes that ended by themselves.
        self.unasked: list[str] = []

    def note(self, kind: KillKind, replica: str, what: str = "") -> Kill:
        """Add a kill that has just happened."""
        kill = Kill(kind, replica, what, time.monotonic(), frozenset(self._state.epochs.get(replica, ())))
        self.list.append(kill)
        task = asyncio.create_task(self._follow(kill))
        self._following.add(task)
        task.add_done_callback(self._following.discard)
        return kill

    async def _follow(self, kill: Kill) -> None:
        await asyncio.sleep(SETTLE_SECONDS)
        # It may have joined under an epoch that the director had not seen yet.
        await self._state.at_work()
        kill.epochs = frozenset(self._state.epochs.get(kill.replica, ()))
        kill.in_flight = await self._state.marked(kill.epochs)
        while time.monotonic() < kill.at + RECOVERY_SECONDS_MAX and not kill.survived:
            if all([await self._state.recovered(epoch) for epoch in kill.epochs]):
                kill.recovered_seconds = time.monotonic() - kill.at
                return
            await asyncio.sleep(LOOK_SECONDS)

    @property
    def unrecovered(self) -> int:
        """Return how many have left work that is not recovered yet."""
        return len(self._following)

    async def followed(self) -> None:
        await asyncio.gather(*self._following)

    def disturbed(self) -> set[int]:
        """Return the epochs that may leave deliveries held: those that were not ended by SIGTERM."""
        return {epoch for kill in self.list if kill.kind != "term" for epoch in kill.epochs}
