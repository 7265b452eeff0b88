"""Webhook endpoints: making and changing them, and where messages to them go."""

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

# An endpoint as a delivery names it: tenant, workspace, number.
Key = tuple[str, str, int]


class Endpoint(Struct, frozen=True):
    """An endpoint as it is to be."""

    name: str
    url: str
    events: tuple[str, ...]
    enabled: bool


class Refused(Struct, frozen=True):
    """Why there is no secret: taken (the name is), full (the workspace has too many), unknown."""

    why: str


async def create(database: Database, whose: Workspace, new: Endpoint, actor: str, reason: str) -> str | Refused:
    """Make an endpoint; answers its secret."""
    made = rules.secret(secrets.token_bytes)
    told = whose.tenant_id, whose.workspace_id, *_columns(new), made, ENDPOINTS_MAX, actor, reason
    answer = str(await database.value(_SQL["create"], *told))
    return made if answer == "created" else Refused(answer)


async def change(database: Database, whose: Workspace, new: Endpoint, actor: str, reason: str) -> str:
    """Let an endpoint be as it is told now; answers changed, same or unknown."""
    told = whose.tenant_id, whose.workspace_id, *_columns(new), actor, reason
    return str(await database.value(_SQL["change"], *told))


async def rotate(
    database: Database, whose: Workspace, name: str, overlap_seconds: float, actor: str, reason: str
) -> str | Refused:
    """Give an endpoint another secret; answers it."""
    made = rules.secret(secrets.token_bytes)
    told = whose.tenant_id, whose.workspace_id, name, overlap_seconds, made, actor, reason
    answer = str(await database.value(_SQL["rotate"], *told))
    return made if answer == "rotated" else Refused(answer)


async def delete(database: Database, whose: Workspace, name: str, actor: str, reason: str) -> bool:
    """Delete an endpoint; False where there is none of that name."""
    told = whose.tenant_id, whose.workspace_id, name, actor, reason
    return str(await database.value(_SQL["delete"], *told)) == "deleted"


async def listed(database: Database, whose: Workspace, after: str, count: int) -> list[dict[str, Any]]:
    """Endpoints in the order of their names, those after a name."""
    rows = await database.fetch(_SQL["list"], whose.tenant_id, whose.workspace_id, after, count, None)
    return [dict(row) for row in rows]


async def show(database: Database, whose: Workspace, name: str) -> dict[str, Any] | None:
    """One endpoint."""
    rows = await database.fetch(_SQL["list"], whose.tenant_id, whose.workspace_id, "", 1, name)
    return dict(rows[0]) if rows else None


async def actions(
    database: Database, whose: Workspace, name: str, count: int, below: int = ID_MAX
) -> list[dict[str, Any]]:
    """What was done to the endpoints of a name below an id, the last first."""
    rows = await database.fetch(_SQL["actions"], whose.tenant_id, whose.workspace_id, name, count, below)
    return [dict(row) for row in rows]


async def targets(database: Database, asked: Collection[Key]) -> Mapping[Key, Target]:
    """Where messages to these endpoints go; those that are not there, or another workspace's, are left out."""
    rows = await database.fetch(_SQL["targets"], [number for _, _, number in asked])
    found = {
        (row["tenant_id"], row["workspace_id"], row["id"]): Target(row["url"], row["enabled"], tuple(row["secrets"]))
        for row in rows
    }
    return {one: found[one] for one in asked if one in found}


def _columns(one: Endpoint) -> tuple[object, ...]:
    return one.name, one.url, list(one.events), one.enabled
