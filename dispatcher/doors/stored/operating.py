"""Held deliveries and dead letters of a database."""

from collections.abc import Sequence

from dispatcher.doors.nouns import HeldFilter, Row, Settlement
from dispatcher.store import dead, held, settling
from dispatcher.store.database import Database
from dispatcher.store.dead import Filter, Kind, Letter, Verb
from dispatcher.store.settling import Standing


class StoredHeld:
    """Settles a page in one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def listed(self, which: HeldFilter, count: int) -> list[Row]:
        """The longest held first."""
        return await held.listed(self._database, count, channel=which.channel, tenant_id=which.tenant_id)

    async def count(self, which: HeldFilter) -> int | None:
        """How many there are."""
        found, _ = await settling.held_count(self._database, settling.Filter(which.channel, which.tenant_id))
        return found

    async def standing(self, ids: Sequence[int]) -> dict[int, Standing]:
        """Where these stand now."""
        return await settling.standing(self._database, ids)

    async def settle(self, ids: Sequence[int], settlement: Settlement) -> dict[int, str]:
        """Settle them."""
        said = settlement.settle_as, settlement.actor, settlement.reason, settlement.message_id
        return dict(await settling.settle(self._database, ids, *said))


class StoredDeadLetters:
    """Replays and discards a page in one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def listed(self, meant: Filter, kind: Kind, below: int, count: int) -> list[Row]:
        """The newest of a kind below an id."""
        return await dead.rows(self._database, kind, await dead.page(self._database, meant, kind, below, count))

    async def is_dead(self, letter: Letter) -> bool:
        """Whether it is one."""
        return await dead.is_dead(self._database, letter)

    async def act(self, verb: Verb, kind: Kind, ids: Sequence[int], reason: str, actor: str) -> dict[int, str]:
        """Replay or discard them."""
        return await dead.act(self._database, verb, kind, ids, reason, actor)
