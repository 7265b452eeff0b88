"""Authentication: the stored key of a request."""

from typing import Literal

from msgspec import Struct

from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.http.roles import Role

_SQL = statements(__name__)

State = Literal["live", "expired", "revoked", "replaced"]


class Key(Struct, frozen=True):
    """A key of the database, by which a request is authenticated."""

    id: int
    tenant_id: str
    workspace_id: str
    name: str
    role: Role
    hash: bytes
    state: State
    # Where its tenant is: here, or as its placement says.
    place: str = "here"
    cell: int = 0
    url: str = ""

    @property
    def workspace(self) -> Workspace:
        return Workspace(self.tenant_id, self.workspace_id)


async def find(database: Database, prefix: str) -> Key | None:
    """Return the key with this prefix, in whatever state."""
    rows = await database.fetch(_SQL["find"], prefix)
    return Key(**dict(rows[0]) | {"role": Role(rows[0]["role"])}) if rows else None


async def touch(database: Database, key_id: int) -> None:
    """Store that a key is used."""
    await database.fetch(_SQL["touch"], key_id)
