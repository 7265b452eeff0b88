"""Stored pauses: opening, listing and ending them. `dispatcher.engine.store.pauses` has what the pipeline asks for."""

from typing import Any

from msgspec import Struct

from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.engine.rules.pauses import Scope

_SQL = statements(__name__)


class Opened(Struct, frozen=True):
    """The pause that is open now, and whether it was before."""

    id: int
    already: bool


async def pause(
    database: Database, scope: Scope, name: str, actor: str, reason: str, place: Workspace | None = None
) -> Opened:
    """Stop something in a workspace, or everywhere."""
    rows = await database.fetch(_SQL["pause"], scope, name, *_columns(place), actor, reason)
    return Opened(*rows[0])


async def resume(database: Database, pause_id: int, actor: str) -> bool:
    """Let what a pause stops go on; False where that has ended, or is a run's."""
    return bool(await database.value(_SQL["resume"], pause_id, actor))


async def listed(
    database: Database, here: Workspace | None, behind: int, count: int, scope: str | None = None
) -> list[dict[str, Any]]:
    """The open pauses behind an id: all, or those that stop anything in a workspace."""
    rows = await database.fetch(_SQL["list"], *_columns(here), behind, count, scope)
    return [dict(found) for found in rows]


async def show(database: Database, pause_id: int) -> dict[str, Any] | None:
    """One that is open."""
    rows = await database.fetch(_SQL["show"], pause_id)
    return dict(rows[0]) if rows else None


def _columns(place: Workspace | None) -> tuple[str | None, str | None]:
    return (None, None) if place is None else (place.tenant_id, place.workspace_id)
