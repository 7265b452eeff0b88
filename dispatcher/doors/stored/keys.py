"""Keys of a database."""

from datetime import datetime

from dispatcher.domain.bearer import Bearer
from dispatcher.domain.roles import Role
from dispatcher.doors.nouns import Row, Whose
from dispatcher.store import keys as store
from dispatcher.store import runs
from dispatcher.store.database import Database


class StoredKeys:
    """Keeps hashes, and shows a secret once."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(
        self, whose: Whose, name: str, role: Role, expires_at: datetime | None, actor: str, reason: str
    ) -> Bearer | None:
        """Make one."""
        return await store.create(self._database, store.New(whose.workspace, name, role, expires_at), actor, reason)

    async def rotate(self, whose: Whose, name: str, overlap_seconds: float, actor: str, reason: str) -> Bearer | str:
        """Give one another secret."""
        return await store.rotate(self._database, whose.workspace, name, overlap_seconds, actor, reason)

    async def revoke(self, whose: Whose, name: str, actor: str, reason: str) -> bool:
        """Take one back."""
        return await store.revoke(self._database, whose.workspace, name, actor, reason)

    async def listed(self, whose: Whose, after: str, count: int, *, revoked: bool) -> list[Row]:
        """Those after a name."""
        return await store.listed(self._database, whose.workspace, after, count, revoked=revoked)

    async def actions(self, whose: Whose, name: str, count: int) -> list[Row]:
        """What was done to those of a name."""
        return await store.actions(self._database, whose.workspace, name, count)

    async def is_over(self, at: datetime) -> bool:
        """Whether a time has come, by the database's clock."""
        return at.timestamp() <= await runs.now(self._database)
