"""Schedules: saving and finding them, and letting those that are due have their ticks."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

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
# What the schema refuses, in words. (Expressions and time zones were read before.)
_CONSTRAINTS = {
    "schedules_name_form": Fault("$.name", _NAMED),
    "schedules_workflow_form": Fault("$.workflow", _NAMED),
    "schedules_input_is_object": Fault("$.input", "expected a JSON object"),
    "schedules_tenant_named": Fault("$.tenant", "tenant and workspace have 1 to 100 characters"),
}

Unreadable = Mapping[int, int]
"""Schedules that cannot be read here, with their versions."""


class Asked(Struct, frozen=True):
    """A schedule as somebody asks for it; the input is a JSON object."""

    name: str
    workflow: str
    cron: str
    time_zone: str = "UTC"
    input: str = "{}"


class Due(Struct, frozen=True):
    """A schedule that is locked for its tick: the one that was to come next, and what the time is now."""

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
    """A tick that runs, which one comes next, and how many came before and do not run."""

    due: Due
    at: datetime
    next_at: datetime | None
    missed: int


class Ticked(Struct, frozen=True):
    """What came of a tick: its run, or why there is none."""

    tick: Tick
    run_id: int | None
    refusal: str | None


async def put(database: Database, here: Workspace, asked: Asked, actor: str) -> str:
    """Save a schedule; answers created, changed or same. ScheduleRefused says what is wrong with it."""
    cron = Cron(asked.cron, asked.time_zone)
    next_at = cron.after(await timestamps.now(database))
    said = asked.name, asked.workflow, asked.cron, asked.time_zone, asked.input
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
    """Let it tick again; answers done, same or unknown. The latest tick that it missed runs, unless that is skipped."""
    next_at = None
    if skip_missed and (found := await show(database, here, name)) is not None:
        next_at = Cron(found["cron"], found["time_zone"]).after(await timestamps.now(database))
    return str(await database.value(_SQL["set_active"], *_place(here), name, True, actor, next_at))


async def deactivate(database: Database, here: Workspace, name: str, actor: str) -> str:
    """Let it tick no more; answers done, same or unknown."""
    return str(await database.value(_SQL["set_active"], *_place(here), name, False, actor, None))


async def keep(database: Database, here: Workspace, name: str) -> int | None:
    """The version of one, which stays until the transaction has ended."""
    found = await database.value(_SQL["keep"], *_place(here), name)
    return None if found is None else int(found)


async def delete(database: Database, here: Workspace, name: str, actor: str) -> str:
    """Delete it; answers deleted or unknown."""
    return str(await database.value(_SQL["delete"], *_place(here), name, actor))


async def fault(database: Database, here: Workspace, name: str) -> str | None:
    """Why a tick of it would be refused now."""
    found = await database.value(_SQL["fault"], *_place(here), name)
    return None if found is None else str(found)


async def listed(
    database: Database,
    here: Workspace,
    behind: str,
    count: int,
    *,
    workflow: str | None = None,
    active: bool | None = None,
) -> list[dict[str, Any]]:
    """Some of a workspace, by name."""
    rows = await database.fetch(_SQL["list"], *_place(here), behind, count, workflow, active)
    return [dict(row) for row in rows]


async def show(database: Database, here: Workspace, name: str) -> dict[str, Any] | None:
    """One, its input as JSON."""
    rows = await database.fetch(_SQL["show"], *_place(here), name)
    return dict(rows[0]) | {"input": msgspec.Raw(rows[0]["input"].encode())} if rows else None


async def actions(database: Database, schedule_id: int, count: int) -> list[dict[str, Any]]:
    """What was done to one, the newest first."""
    return [dict(row) for row in await database.fetch(_SQL["actions"], schedule_id, count)]


async def take(connection: Any, count: int, unreadable: Unreadable) -> list[Due]:  # noqa: ANN401 - the pool's connection carries no types of ours
    """Lock schedules that are due, for as long as the transaction lasts."""
    rows = await connection.fetch(_SQL["take"], count, *_columns(unreadable))
    return [Due(**row) for row in rows]


async def tick(connection: Any, ticks: Sequence[Tick]) -> list[Ticked]:  # noqa: ANN401 - as above
    """Trigger the workflows of schedules that are locked, and move them on."""
    if not ticks:
        return []
    by_id = {one.due.id: one for one in ticks}
    columns = zip(*((one.due.id, one.at, one.next_at, one.missed) for one in ticks), strict=True)
    rows = await connection.fetch(_SQL["tick"], *(list(column) for column in columns))
    return [Ticked(by_id[row["id"]], row["run_id"], row["refusal"]) for row in rows]


async def next_due(database: Database, unreadable: Unreadable) -> float | None:
    """Seconds until a schedule is due, negative where one is; None where there is none."""
    found = await database.value(_SQL["next_due"], *_columns(unreadable))
    return None if found is None else float(found)


def _place(here: Workspace) -> tuple[str, str]:
    return here.tenant_id, here.workspace_id


def _columns(unreadable: Unreadable) -> tuple[list[int], list[int]]:
    return list(unreadable), list(unreadable.values())
