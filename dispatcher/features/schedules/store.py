"""The store of schedules: save, find, activate and delete them, and run the ticks that are due."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

import asyncpg
import msgspec
from msgspec import Struct

from dispatcher.base.errors import Fault, ScheduleRefused
from dispatcher.base.workspace import Workspace
from dispatcher.db import timestamps
from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.features.schedules.rules import Cron

_SQL = statements(__name__)

_NAMED = "expected 1 to 100 letters, digits and . _ / -, a letter or digit first"
# The faults behind the schema's constraints. (Expressions and time zones were checked before.)
_CONSTRAINTS = {
    "schedules_name_form": Fault("$.name", _NAMED),
    "schedules_workflow_form": Fault("$.workflow", _NAMED),
    "schedules_input_is_object": Fault("$.input", "expected a JSON object"),
    "schedules_tenant_named": Fault("$.tenant", "tenant and workspace have 1 to 100 characters"),
}

# The versions of schedules that cannot be read here, by id.
Unreadable: TypeAlias = Mapping[int, int]
# The pool's connection carries no types of ours.
Connection: TypeAlias = Any


class Definition(Struct, frozen=True):
    """A schedule that is to be saved; the input is a JSON object."""

    name: str
    workflow: str
    cron: str
    time_zone: str = "UTC"
    input: str = "{}"


class Due(Struct, frozen=True):
    """A schedule that is locked for its tick, with the time now."""

    id: int
    version: int
    tenant_id: str
    workspace_id: str
    name: str
    cron: str
    time_zone: str
    next_at: datetime
    now: datetime


class Tick(Struct, frozen=True):
    """A tick that runs, the next tick, and the number of earlier ticks that are missed."""

    due: Due
    at: datetime
    next_at: datetime | None
    missed: int


class Ticked(Struct, frozen=True):
    """The result of a tick: its run, or why it was refused."""

    tick: Tick
    run_id: int | None
    refusal: str | None


async def put(database: Database, here: Workspace, given: Definition, actor: str) -> str:
    """Save a schedule; return created, changed or same. Raises ScheduleRefused with its faults."""
    cron = Cron(given.cron, given.time_zone)
    next_at = cron.after(await timestamps.now(database))
    said = given.name, given.workflow, given.cron, given.time_zone, given.input
    try:
        return str(await database.value(_SQL["put"], *_place(here), *said, next_at, actor))
    except asyncpg.InvalidParameterValueError as refused:
        faults = msgspec.json.decode(refused.detail or "[]", type=list[dict[str, str]])
        raise ScheduleRefused([Fault(one["path"], one["words"]) for one in faults]) from refused
    except asyncpg.CheckViolationError as refused:
        if refused.constraint_name not in _CONSTRAINTS:
            raise
        raise ScheduleRefused([_CONSTRAINTS[refused.constraint_name]]) from refused
    except asyncpg.DataError as refused:
        raise ScheduleRefused([Fault("$.input", str(refused))]) from refused


async def activate(database: Database, here: Workspace, name: str, actor: str, *, skip_missed: bool) -> str:
    """Activate a schedule; return done, same or unknown. The latest missed tick runs, unless it is skipped."""
    next_at = None
    if skip_missed and (found := await show(database, here, name)) is not None:
        next_at = Cron(found["cron"], found["time_zone"]).after(await timestamps.now(database))
    return str(await database.value(_SQL["set_active"], *_place(here), name, True, actor, next_at))


async def deactivate(database: Database, here: Workspace, name: str, actor: str) -> str:
    """Deactivate a schedule; return done, same or unknown."""
    return str(await database.value(_SQL["set_active"], *_place(here), name, False, actor, None))


async def lock_version(database: Database, here: Workspace, name: str) -> int | None:
    """Return the version of a schedule, and lock it until the transaction ends."""
    found: int | None = await database.value(_SQL["lock_version"], *_place(here), name)
    return found


async def delete(database: Database, here: Workspace, name: str, actor: str) -> str:
    """Delete a schedule; return deleted or unknown."""
    return str(await database.value(_SQL["delete"], *_place(here), name, actor))


async def fault(database: Database, here: Workspace, name: str) -> str | None:
    """Return why a tick would be refused now, or None."""
    found: str | None = await database.value(_SQL["fault"], *_place(here), name)
    return found


async def listed(
    database: Database,
    here: Workspace,
    behind: str,
    count: int,
    *,
    workflow: str | None = None,
    active: bool | None = None,
) -> list[dict[str, Any]]:
    """Return the schedules behind a name, by name."""
    rows = await database.fetch(_SQL["list"], *_place(here), behind, count, workflow, active)
    return [dict(row) for row in rows]


async def show(database: Database, here: Workspace, name: str) -> dict[str, Any] | None:
    """Return a schedule, or None; its input is JSON."""
    rows = await database.fetch(_SQL["show"], *_place(here), name)
    return dict(rows[0]) | {"input": msgspec.Raw(rows[0]["input"].encode())} if rows else None


async def actions(database: Database, schedule_id: int, count: int) -> list[dict[str, Any]]:
    """Return the actions on a schedule, the newest first."""
    return [dict(row) for row in await database.fetch(_SQL["actions"], schedule_id, count)]


async def take(connection: Connection, count: int, unreadable: Unreadable) -> list[Due]:
    """Return schedules that are due, and lock them until the transaction ends."""
    return [Due(**row) for row in await connection.fetch(_SQL["take"], count, *_columns(unreadable))]


async def tick(connection: Connection, ticks: Sequence[Tick]) -> list[Ticked]:
    """Run the ticks of locked schedules: trigger their workflows, and set the next ticks."""
    if not ticks:
        return []
    by_id = {one.due.id: one for one in ticks}
    columns = zip(*((one.due.id, one.at, one.next_at, one.missed) for one in ticks), strict=True)
    rows = await connection.fetch(_SQL["tick"], *(list(column) for column in columns))
    return [Ticked(by_id[row["id"]], row["run_id"], row["refusal"]) for row in rows]


async def soonest(database: Database) -> float | None:
    """Return the seconds until a schedule is due, whether it can be read here or not; None if there is none."""
    found: float | None = await database.look(_SQL["soonest"])
    return found


async def next_due(database: Database, unreadable: Unreadable) -> float | None:
    """Return the seconds until a schedule is due, negative if it is overdue; None if there is none."""
    found: float | None = await database.value(_SQL["next_due"], *_columns(unreadable))
    return found


def _place(here: Workspace) -> tuple[str, str]:
    return here.tenant_id, here.workspace_id


def _columns(unreadable: Unreadable) -> tuple[list[int], list[int]]:
    return list(unreadable), list(unreadable.values())
