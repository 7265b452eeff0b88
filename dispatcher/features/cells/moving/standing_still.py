"""Standing still: nothing of a tenant that leaves can be written or sent any more."""

import asyncio
import time
from collections.abc import Callable, Sequence

from msgspec import Struct

from dispatcher.base.errors import MoveInterrupted
from dispatcher.db.statements import statements
from dispatcher.features.cells.moving.rows.digests import Connection

_SQL = statements(__name__)

# A call of a provider may take its time; a tenant that waits for longer than this works again before it is tried anew.
SECONDS_MAX = 120.0
LOOK_SECONDS = 0.05
TOLD_SECONDS = 2.0
# A statement that keeps so many rows locked takes a second.
PARKED_PAGE = 50_000


class Wait(Struct):
    """A wait that says from time to time what it is for, and ends with an error."""

    tell: Callable[[str], None]
    deadline: float
    told: float

    @classmethod
    def begin(cls, tell: Callable[[str], None]) -> "Wait":
        """Return a wait that begins now."""
        now = time.monotonic()
        return cls(tell, now + SECONDS_MAX, now)

    async def step(self, waits_for: Sequence[str]) -> None:
        """Wait for a moment. Raises MoveInterrupted when it has been long enough."""
        now, words = time.monotonic(), "; ".join(waits_for)
        if now >= self.deadline:
            raise MoveInterrupted(f"the tenant did not come to rest: {words}")
        if now - self.told >= TOLD_SECONDS:
            self.told = now
            self.tell(f"waiting: {words}")
        await asyncio.sleep(LOOK_SECONDS)


async def await_older(connection: Connection, wait: Wait, own: Sequence[int]) -> None:
    """Return when every transaction but our own is over that may not have seen what was committed before."""
    boundary = await connection.fetchval(_SQL["boundary"])
    while older := await connection.fetch(_SQL["older"], boundary, own):
        await wait.step([row["words"] for row in older])


async def drain(connection: Connection, wait: Wait, tenant: str, pause: int) -> None:
    """Return when dispatchers have nothing of the tenant any more; what is ready is parked by its pause."""
    while True:
        parked = await connection.fetchval(_SQL["park"], tenant, pause, PARKED_PAGE)
        claimed = [row["words"] for row in await connection.fetch(_SQL["claimed"], tenant)]
        if not parked and not claimed:
            return
        if not parked:
            await wait.step(claimed)


async def is_settled(snapshot: Connection, tenant: str) -> bool:
    """Whether nothing of the tenant could be sent, as a snapshot has it."""
    return not await snapshot.fetchval(_SQL["unsettled"], tenant)
