"""Stored pauses: opening, listing and ending them. `dispatcher.engine.store.pauses` has the queries of the engine."""

from typing import Any

from msgspec import Struct

from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.engine.rules.pauses import Scope

_SQL = statements(__name__)


class Opened(Struct, frozen=True):
    """The open pause, and whether it was open before."""

    id: int
    already: bool


async def pause(
    database: Database, scope: Scope, name: str, actor: str, reason: str, place: Workspace | None = None
) -> Opened:
    """Open a pause in a workspace, or everywhere."""
    rows = await database.fetch(_SQL["pause"], scope, name, *_columns(place), actor, reason)
    return Opened(*rows[0])


async def resume(database: Database, pause_id: int, actor: str, reason: str) -> bool:
    """End a pause; False if it has ended, or belongs to a run."""
    return bool(await database.value(_SQL["resume"], pause_id, actor, reason))


async def listed(
    database: Database, workspace: Workspace | None, after: int, count: int, scope: str | None = None
) -> list[dict[str, Any]]:
    """Return open pauses after an id: all, or those that concern a workspace."""
    rows = await database.fetch(_SQL["list"], *_columns(workspace), after, count, scope)
    return [dict(row) for row in rows]


async def show(database: Database, pause_id: int) -> dict[str, Any] | None:
    """Return an open pause, or None."""
    rows = await database.fetch(_SQL["show"], pause_id)
    return dict(rows[0]) if rows else None


def _columns(place: Workspace | None) -> tuple[str | None, str | None]:
    return (None, None) if place is None else (place.tenant_id, place.workspace_id)
