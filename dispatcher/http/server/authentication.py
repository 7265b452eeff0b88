"""Authentication: the key that a request shows, as the database has it."""

from typing import Literal

from msgspec import Struct

from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.http.roles import Role

_SQL = statements(__name__)

State = Literal["live", "expired", "revoked", "replaced"]


class Found(Struct, frozen=True):
    """A key, as a request shows it."""

    id: int
    tenant_id: str
    workspace_id: str
    name: str
    role: Role
    hash: bytes
    state: State

    @property
    def workspace(self) -> Workspace:
        """What it opens."""
        return Workspace(self.tenant_id, self.workspace_id)


async def find(database: Database, prefix: str) -> Found | None:
    """The key that a prefix leads to, good or not."""
    rows = await database.fetch(_SQL["find"], prefix)
    return Found(**dict(rows[0]) | {"role": Role(rows[0]["role"])}) if rows else None


async def touch(database: Database, key_id: int) -> None:
    """Note that a key is used."""
    await database.fetch(_SQL["touch"], key_id)
