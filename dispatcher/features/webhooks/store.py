"""Webhook endpoints in the database: created, changed, listed, and the targets of their messages."""

import secrets
from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct

from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.features.webhooks import rules
from dispatcher.features.webhooks.rules import ENDPOINTS_MAX, Target
from dispatcher.http.cursors import ID_MAX

_SQL = statements(__name__)

# An endpoint as a delivery names it: tenant, workspace, id.
Key = tuple[str, str, int]


class Endpoint(Struct, frozen=True):
    """The settings of an endpoint."""

    name: str
    url: str
    events: tuple[str, ...]
    enabled: bool


class Refused(Struct, frozen=True):
    """Why there is no secret: taken (the name is), full (the workspace has ENDPOINTS_MAX endpoints), unknown."""

    why: str


async def create(database: Database, workspace: Workspace, new: Endpoint, actor: str, reason: str) -> str | Refused:
    """Create an endpoint; return its secret."""
    secret = rules.secret(secrets.token_bytes)
    answer = await _act(database, "create", workspace, *_columns(new), secret, ENDPOINTS_MAX, actor, reason)
    return secret if answer == "created" else Refused(answer)


async def change(database: Database, workspace: Workspace, new: Endpoint, actor: str, reason: str) -> str:
    """Change an endpoint; return changed, same or unknown."""
    return await _act(database, "change", workspace, *_columns(new), actor, reason)


async def rotate(
    database: Database, workspace: Workspace, name: str, overlap_seconds: float, actor: str, reason: str
) -> str | Refused:
    """Give an endpoint another secret; return it."""
    secret = rules.secret(secrets.token_bytes)
    answer = await _act(database, "rotate", workspace, name, overlap_seconds, secret, actor, reason)
    return secret if answer == "rotated" else Refused(answer)


async def delete(database: Database, workspace: Workspace, name: str, actor: str, reason: str) -> bool:
    """Delete an endpoint; False where the name is unknown."""
    return await _act(database, "delete", workspace, name, actor, reason) == "deleted"


async def _act(database: Database, statement: str, workspace: Workspace, *arguments: object) -> str:
    return str(await database.value(_SQL[statement], workspace.tenant_id, workspace.workspace_id, *arguments))


async def listed(
    database: Database, workspace: Workspace, after: str, count: int, name: str | None = None
) -> list[dict[str, Any]]:
    """Return endpoints by name: those after a name, or only the named one."""
    rows = await database.fetch(_SQL["list"], workspace.tenant_id, workspace.workspace_id, after, count, name)
    return [dict(row) for row in rows]


async def actions(
    database: Database, workspace: Workspace, name: str, count: int, below: int = ID_MAX
) -> list[dict[str, Any]]:
    """Return the actions on the endpoints of a name below an id, the newest first."""
    rows = await database.fetch(_SQL["actions"], workspace.tenant_id, workspace.workspace_id, name, count, below)
    return [dict(row) for row in rows]


async def targets(database: Database, asked: Collection[Key]) -> Mapping[Key, Target]:
    """Return the targets of endpoints; missing ones, and those of another workspace, are left out."""
    rows = await database.fetch(_SQL["targets"], [number for _, _, number in asked])
    found = {
        (row["tenant_id"], row["workspace_id"], row["id"]): Target(row["url"], row["enabled"], tuple(row["secrets"]))
        for row in rows
    }
    return {one: found[one] for one in asked if one in found}


def _columns(one: Endpoint) -> tuple[object, ...]:
    return one.name, one.url, list(one.events), one.enabled
