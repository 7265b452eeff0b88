"""Pauses: who stopped what, where, and why."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from msgspec import Struct

from dispatcher.domain.pauses import Inside, Pauses
from dispatcher.store.database import Database
from dispatcher.store.queries import statements
from dispatcher.store.templates import Workspace

_SQL = statements("pauses")

# What an operator pauses by name. A run is paused as a run, which pauses its deliveries too.
Scope = Literal["channel", "provider", "tenant", "template", "workspace"]
SCOPES: tuple[Scope, ...] = ("channel", "provider", "tenant", "template", "workspace")
# What there is in a workspace; a pause of the others holds everywhere.
PLACED: tuple[Scope, ...] = ("channel", "template", "workspace")

Row = Mapping[str, Any]


class Opened(Struct, frozen=True):
    """The pause that is open now, and whether it was before."""

    id: int
    already: bool


async def pause(
    database: Database, scope: Scope, name: str, actor: str, reason: str, place: Workspace | None = None
) -> Opened:
    """Stop it in a workspace, or everywhere."""
    rows = await database.fetch(_SQL["pause"], scope, name, *_columns(place), actor, reason)
    return Opened(*rows[0])


async def resume(database: Database, scope: Scope, name: str, actor: str, place: Workspace | None = None) -> bool:
    """Let it go on there, or everywhere; False where it was not paused."""
    return bool(await database.value(_SQL["resume"], scope, name, *_columns(place), actor))


async def resume_one(database: Database, pause_id: int, actor: str) -> bool:
    """Let what a pause stops go on; False where that has ended, or is a run's."""
    return bool(await database.value(_SQL["resume_one"], pause_id, actor))


def _columns(place: Workspace | None) -> tuple[str | None, str | None]:
    return (None, None) if place is None else (place.tenant_id, place.workspace_id)


async def listed(database: Database) -> list[dict[str, Any]]:
    """The open pauses."""
    return [dict(found) for found in await database.fetch(_SQL["open"])]


async def concerning(
    database: Database, here: Workspace, behind: int, count: int, scope: str | None = None
) -> list[dict[str, Any]]:
    """Those that stop anything in a workspace, behind an id."""
    rows = await database.fetch(_SQL["concerning"], here.tenant_id, here.workspace_id, behind, count, scope)
    return [dict(found) for found in rows]


async def show(database: Database, pause_id: int) -> dict[str, Any] | None:
    """One that is open."""
    rows = await database.fetch(_SQL["show"], pause_id)
    return dict(rows[0]) if rows else None


async def current(database: Database) -> Pauses:
    """The open pauses, as the pipeline asks for them."""
    return _sorted(await listed(database))


def _sorted(found: Iterable[Row]) -> Pauses:
    everywhere: dict[str, dict[str, int]] = {scope: {} for scope in (*SCOPES, "run")}
    places: dict[tuple[str, str], dict[str, dict[str, int]]] = {}
    for one in found:
        if one["tenant_id"] is None or one["scope"] == "run":
            everywhere[one["scope"]][one["name"]] = one["id"]
        else:
            place = places.setdefault((one["tenant_id"], one["workspace_id"]), {scope: {} for scope in PLACED})
            place[one["scope"]][one["name"]] = one["id"]
    return Pauses(
        channels=everywhere["channel"],
        providers=everywhere["provider"],
        tenants=everywhere["tenant"],
        templates=everywhere["template"],
        runs=everywhere["run"],
        places={
            at: Inside(next(iter(of["workspace"].values()), None), of["channel"], of["template"])
            for at, of in places.items()
        },
    )


async def unpark(database: Database, page: int) -> int:
    """Make ready what waited for a pause that is over; says how many it were."""
    return int(await database.value(_SQL["unpark"], page))
