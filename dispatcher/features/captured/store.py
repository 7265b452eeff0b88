"""Captured messages in the database."""

from typing import Any

from msgspec import Raw

from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.db.statements import statements

_SQL = statements(__name__)


async def newest(
    database: Database, workspace: Workspace, below: int, count: int, *, channel: str | None, recipient: str | None
) -> list[dict[str, Any]]:
    """Return the newest captured messages of a workspace below an id."""
    asked = workspace.tenant_id, workspace.workspace_id, below, count, channel, recipient
    return [dict(row) for row in await database.fetch(_SQL["newest"], *asked)]


async def one(database: Database, number: int) -> dict[str, Any] | None:
    """Return a captured message with its tenant and workspace, or None."""
    rows = await database.fetch(_SQL["one"], number)
    if not rows:
        return None
    found = dict(rows[0])
    return found | {name: Raw(found[name].encode()) for name in ("parts", "options")}
