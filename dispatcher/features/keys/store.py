"""Stored keys: making, listing, rotating and revoking them."""

import secrets
from datetime import datetime
from typing import Any

from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.http import bearer
from dispatcher.http.bearer import Bearer
from dispatcher.http.cursors import ID_MAX
from dispatcher.http.roles import Role

_SQL = statements(__name__)

# Actor and reason.
By = tuple[str, str]


async def create(
    database: Database, workspace: Workspace, name: str, role: Role, expires_at: datetime | None, *, by: By
) -> Bearer | None:
    """Make a key; None if its name is taken. Its secret cannot be shown again."""
    made = bearer.make(secrets.choice)
    key = workspace.tenant_id, workspace.workspace_id, name, role.value, expires_at
    key_id = await database.value(_SQL["create"], *key, made.prefix, made.hash, *by)
    return None if key_id is None else made


async def rotate(
    database: Database, workspace: Workspace, name: str, overlap_seconds: float, *, by: By
) -> Bearer | str:
    """Give a key another secret; a text says why not: unknown, expired."""
    made = bearer.make(secrets.choice)
    key = workspace.tenant_id, workspace.workspace_id, name
    answer = await database.value(_SQL["rotate"], *key, overlap_seconds, made.prefix, made.hash, *by)
    return made if answer == "rotated" else str(answer)


async def revoke(database: Database, workspace: Workspace, name: str, *, by: By) -> bool:
    """Revoke a key; False if there is none of that name."""
    answer = await database.value(_SQL["revoke"], workspace.tenant_id, workspace.workspace_id, name, *by)
    return bool(answer == "revoked")


async def listed(
    database: Database,
    workspace: Workspace,
    after: str,
    count: int,
    *,
    revoked: bool = False,
    behind: int = ID_MAX,
    role: Role | None = None,
) -> list[dict[str, Any]]:
    """Return keys in the order of their names, after a name; also keys of that name with smaller ids than `behind`."""
    place = workspace.tenant_id, workspace.workspace_id, after, count, revoked, behind
    rows = await database.fetch(_SQL["list"], *place, None if role is None else role.value)
    return [dict(row) for row in rows]


async def actions(
    database: Database, workspace: Workspace, name: str, count: int, below: int = ID_MAX
) -> list[dict[str, Any]]:
    """Return the actions on keys of a name, newest first, below an id."""
    rows = await database.fetch(_SQL["actions"], workspace.tenant_id, workspace.workspace_id, name, count, below)
    return [dict(row) for row in rows]
