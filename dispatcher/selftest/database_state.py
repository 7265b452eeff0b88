"""The state in the database: which instances work, what is under way, and which dead ones have been recovered."""

from collections import Counter
from collections.abc import Collection

from msgspec import Struct

from dispatcher.db.database import Database

# A token is an epoch and a counter of 24 bits, so an epoch's claims are a range of the key.
_UNDER_WAY = """
    FROM dispatcher.claims c JOIN dispatcher.delivery_state s ON s.id = ANY (c.ids) AND s.token = c.token
   WHERE c.token >= $1::bigint << 24 AND c.token < ($1::bigint + 1) << 24 AND s.status = 'queued' AND NOT s.held
"""
_AT_WORK = """
SELECT i.name, i.epoch, count(s.id) AS claimed, count(s.id) FILTER (WHERE s.marked) AS marked
  FROM dispatcher.instances i LEFT JOIN dispatcher.claims c USING (epoch)
  LEFT JOIN dispatcher.delivery_state s
    ON s.id = ANY (c.ids) AND s.token = c.token AND s.status = 'queued' AND NOT s.held
 GROUP BY i.name, i.epoch
"""
_RECOVERED = f"""
SELECT NOT EXISTS (SELECT FROM dispatcher.instances WHERE epoch = $1) AND NOT EXISTS (SELECT {_UNDER_WAY})
"""  # noqa: S608 - our own text
_DRAINED = """
SELECT NOT EXISTS (SELECT FROM dispatcher.delivery_state WHERE ready)
   AND NOT EXISTS (SELECT FROM dispatcher.claims c
                     JOIN dispatcher.delivery_state s ON s.id = ANY (c.ids) AND s.token = c.token
                    WHERE s.status = 'queued' AND NOT s.held)
   AND NOT EXISTS (SELECT FROM dispatcher.job_queue WHERE expanded_at IS NULL)
   AND NOT EXISTS (SELECT FROM dispatcher.job_results)
"""


class Work(Struct, frozen=True):
    """The numbers of deliveries that an instance has claimed and marked."""

    epoch: int
    claimed: int
    marked: int


class DatabaseState:
    """Reads over a connection that is not disturbed. `epochs` collects the epochs of each instance by name."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.epochs: dict[str, set[int]] = {}

    async def at_work(self) -> dict[str, Work]:
        """Return the work of every registered instance, by name."""
        found: dict[str, Work] = {}
        for name, epoch, claimed, marked in await self._database.fetch(_AT_WORK):
            self.epochs.setdefault(name, set()).add(epoch)
            found[name] = Work(epoch, claimed, marked)
        return found

    async def marked(self, epochs: Collection[int]) -> dict[str, int]:
        """Return how many deliveries these epochs have marked that have no result, by class."""
        counts: Counter[str] = Counter()
        for epoch in epochs:
            query = f"SELECT s.channel, count(*) {_UNDER_WAY} AND s.marked GROUP BY s.channel"
            counts.update(dict(await self._database.fetch(query, epoch)))
        return dict(counts)

    async def recovered(self, epoch: int) -> bool:
        """Whether an epoch is gone and all of its claims are settled."""
        return bool(await self._database.value(_RECOVERED, epoch))

    async def waiting(self, counted_max: int) -> int:
        query = "SELECT count(*) FROM (SELECT FROM dispatcher.delivery_state WHERE ready LIMIT $1) AS few"
        return int(await self._database.value(query, counted_max))

    async def drained(self) -> bool:
        return bool(await self._database.value(_DRAINED))
