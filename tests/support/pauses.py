"""Pauses as the tests make and end them, and as the pipeline sees them."""

from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.engine.rules.pauses import Scope
from dispatcher.engine.store.pauses import unpark
from dispatcher.features.pauses.store import pause

__all__ = ["Scope", "pause", "resume", "unpark"]


async def resume(database: Database, scope: Scope, name: str, actor: str, place: Workspace | None = None) -> bool:
    """Let something go on by its name; False where it is not paused."""
    where = (None, None) if place is None else (place.tenant_id, place.workspace_id)
    return bool(await database.value("SELECT dispatcher.resume($1, $2, $3, $4, $5)", scope, name, *where, actor))
