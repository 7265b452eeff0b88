"""Pauses: who stopped what, and why."""

from typing import Any, Literal

from dispatcher.domain.pauses import Pauses
from dispatcher.store.database import Database
from dispatcher.store.queries import statements

_SQL = statements("pauses")

# What an operator pauses by name. A run is paused as a run, which pauses its deliveries too.
Scope = Literal["channel", "provider", "tenant", "template"]
SCOPES: tuple[Scope, ...] = ("channel", "provider", "tenant", "template")
_EVERY = (*SCOPES, "run")


async def pause(database: Database, scope: Scope, name: str, actor: str, reason: str) -> int:
    """Stop it; answers the id of the pause, which may be an older one."""
    return int(await database.value(_SQL["pause"], scope, name, actor, reason))


async def resume(database: Database, scope: Scope, name: str, actor: str) -> bool:
    """Let it go on; False where it was not paused."""
    return bool(await database.value(_SQL["resume"], scope, name, actor))


async def listed(database: Database) -> list[dict[str, Any]]:
    """The open pauses."""
    return [dict(found) for found in await database.fetch(_SQL["open"])]


async def current(database: Database) -> Pauses:
    """The open pauses, as the pipeline asks for them."""
    found = await listed(database)
    by_scope = {scope: {one["name"]: one["id"] for one in found if one["scope"] == scope} for scope in _EVERY}
    return Pauses(*by_scope.values())


async def unpark(database: Database, page: int) -> int:
    """Make ready what waited for a pause that is over; says how many it were."""
    return int(await database.value(_SQL["unpark"], page))
