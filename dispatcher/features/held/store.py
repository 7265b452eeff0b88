"""Held deliveries in the database: listed, settled by the page, and their state afterwards."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from dispatcher.db.database import Database
from dispatcher.db.statements import statements

_SQL = statements(__name__)


async def listed(
    database: Database,
    tenant_id: str | None,
    workspace_id: str | None,
    count: int,
    *,
    channel: str | None,
    error: str | None,
    behind: tuple[datetime, int] | None,
    until: datetime | None = None,
) -> list[dict[str, Any]]:
    """Return the longest held, after a time and an id, that were held before `until`."""
    asked = tenant_id, workspace_id, count, channel, *(behind or (None, None)), until, error
    return [dict(found) for found in await database.fetch(_SQL["list"], *asked)]


async def groups(
    database: Database,
    scope: tuple[str | None, str | None],
    channel: str | None,
    error: str | None,
    *,
    counted_max: int,
    count: int,
) -> list[dict[str, Any]]:
    """Return the largest groups of the same channel and error among the longest held."""
    rows = await database.fetch(_SQL["groups"], *scope, counted_max, channel, error, count)
    return [dict(found) for found in rows]


async def settle(
    database: Database, ids: Sequence[int], settle_as: str, actor: str, reason: str, message_id: str | None = None
) -> dict[int, str]:
    """Settle a page; return for each settled, unknown, early, not held, or the status that it has already."""
    rows = await database.fetch(_SQL["settle"], ids, settle_as, actor, reason, message_id)
    return {found["id"]: found["answer"] for found in rows}


async def state(database: Database, ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Return the states of deliveries now, held or not."""
    return {found["id"]: dict(found) for found in await database.fetch(_SQL["state"], ids)}
