"""Stored keys: making, listing, rotating and revoking them."""

import secrets
from datetime import datetime
from typing import Any

from msgspec import Struct

from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.http import bearer
from dispatcher.http.bearer import Bearer
from dispatcher.http.cursors import ID_MAX
from dispatcher.http.roles import Role

_SQL = statements(__name__)


class New(Struct, frozen=True):
    """A key that is to be made."""

    workspace: Workspace
    name: str
    role: Role
    expires_at: datetime | None


async def create(database: Database, new: New, actor: str, reason: str) -> Bearer | None:
    """Make a key; None where its name is taken. Nobody can show its secret again."""
    made = bearer.make(secrets.choice)
    whose = new.workspace
    told = whose.tenant_id, whose.workspace_id, new.name, new.role.value, new.expires_at
    key_id = await database.value(_SQL["create"], *told, made.prefix, made.hash, actor, reason)
    return None if key_id is None else made


async def rotate(
    database: Database, whose: Workspace, name: str, overlap_seconds: float, actor: str, reason: str
) -> Bearer | str:
    """Give a key another secret; or why not: unknown, expired."""
    made = bearer.make(secrets.choice)
    told = whose.tenant_id, whose.workspace_id, name, overlap_seconds, made.prefix, made.hash, actor, reason
    answer = await database.value(_SQL["rotate"], *told)
    return made if answer == "rotated" else str(answer)


async def revoke(database: Database, whose: Workspace, name: str, actor: str, reason: str) -> bool:
    """Take a key back; False where there is none of that name."""
    return (
        str(await database.value(_SQL["revoke"], whose.tenant_id, whose.workspace_id, name, actor, reason)) == "revoked"
    )


async def listed(
    database: Database,
    whose: Workspace,
    after: str,
    count: int,
    *,
    revoked: bool = False,
    behind: int = ID_MAX,
    role: Role | None = None,
) -> list[dict[str, Any]]:
    """Keys in the order of their names, those after a name; also those of that name whose ids are behind one."""
    place = whose.tenant_id, whose.workspace_id, after, count, revoked, behind
    rows = await database.fetch(_SQL["list"], *place, None if role is None else role.value)
    return [dict(row) for row in rows]


async def actions(
    database: Database, whose: Workspace, name: str, count: int, below: int = ID_MAX
) -> list[dict[str, Any]]:
    """What was done to the keys of a name, the last first, below an id."""
    rows = await database.fetch(_SQL["actions"], whose.tenant_id, whose.workspace_id, name, count, below)
    return [dict(row) for row in rows]
