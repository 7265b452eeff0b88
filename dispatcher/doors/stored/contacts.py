"""Contacts of a database."""

from collections.abc import Sequence

from msgspec import structs

from dispatcher.domain.contacts import Said
from dispatcher.doors.nouns import Refusal, Row, Whose
from dispatcher.doors.people import Kept, Traits
from dispatcher.store import contacts as store
from dispatcher.store.contacts import Mode, Put
from dispatcher.store.database import Database


class StoredContacts:
    """Writes contacts as they are said."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, whose: Whose, contacts: Sequence[Said], mode: Mode, actor: str) -> list[Kept | Refusal]:
        """Write each for itself."""
        return [_told(one) for one in await store.put(self._database, whose.workspace, contacts, mode, actor)]

    async def show(self, whose: Whose, key: str) -> Row | None:
        """One by its key."""
        return await store.show(self._database, whose.workspace, key)

    async def listed(self, whose: Whose, which: Traits, after: str, count: int) -> list[Row]:
        """Those after a key."""
        return await store.listed(self._database, whose.workspace, after, count, **structs.asdict(which))

    async def delete(self, whose: Whose, key: str) -> str:
        """Delete one."""
        return await store.delete(self._database, whose.workspace, key) or "deleted"


def _told(became: Put) -> Kept | Refusal:
    if became.fault is not None:
        return Refusal([became.fault])
    return Kept(became.answer, became.version or 0)  # type: ignore[arg-type]  # of what has no fault
