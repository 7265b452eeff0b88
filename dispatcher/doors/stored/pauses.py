"""Pauses of a database."""

from dispatcher.doors.nouns import Row, Whose
from dispatcher.store import pauses as store
from dispatcher.store.database import Database
from dispatcher.store.pauses import Scope
from dispatcher.store.templates import Workspace


class StoredPauses:
    """Stops whatever is named, in any workspace."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def place(self, whose: Whose) -> Workspace:
        """Which workspace is meant."""
        return whose.workspace

    async def listed(self, _where: Workspace | None) -> list[Row]:
        """All that is stopped."""
        return await store.listed(self._database)

    async def pause(self, scope: Scope, name: str, where: Workspace | None, actor: str, reason: str) -> Row | None:
        """Stop it."""
        opened = await store.pause(self._database, scope, name, actor, reason, where)
        return await store.show(self._database, opened.id)

    async def resume(self, scope: Scope, name: str, where: Workspace | None, actor: str) -> bool:
        """Let it go on."""
        return await store.resume(self._database, scope, name, actor, where)
