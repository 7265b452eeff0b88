"""Objects of a database."""

from dispatcher.domain.shelf import Name
from dispatcher.doors.nouns import Row, Whose
from dispatcher.store import objects as store
from dispatcher.store.database import Database


class StoredObjects:
    """Keeps them in rows."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, whose: Whose, name: str, content: bytes, content_type: str) -> Row | None:
        """Keep one."""
        answer = await store.put(self._database, _full(whose, name), content, content_type)
        return None if answer == "taken" else {"answer": answer} | (await self.show(whose, name) or {})

    async def listed(self, whose: Whose, after: str, count: int) -> list[Row]:
        """Those after a name."""
        place = whose.workspace
        return await store.listed(self._database, place.tenant_id, place.workspace_id, after, count)

    async def show(self, whose: Whose, name: str) -> Row | None:
        """One, without its content."""
        return await store.show(self._database, _full(whose, name))

    async def erase(self, whose: Whose, name: str) -> str:
        """Erase its content."""
        return await store.erase(self._database, _full(whose, name))


def _full(whose: Whose, name: str) -> Name:
    return whose.workspace.tenant_id, whose.workspace.workspace_id, name
