"""Schedules over HTTP: saving them, looking at them and at their next ticks, and letting them tick or rest."""

from itertools import islice
from typing import Any

import msgspec

from dispatcher.api import schedule_models as models
from dispatcher.api import tags
from dispatcher.api.cursors import after
from dispatcher.api.endpoints import Call, Done, Endpoint
from dispatcher.api.listing import by_name, page
from dispatcher.api.problems import CHANGED, CONFLICT, NOT_FOUND, Problem, faulty, not_found
from dispatcher.domain.cron import Cron
from dispatcher.domain.roles import Right
from dispatcher.errors import ScheduleRefused
from dispatcher.store import schedules as store
from dispatcher.store.schedules import Asked

NOUN = "schedules"
ACTIONS_MAX = 20


async def list_(call: Call) -> Done:
    """By name."""
    asked: models.ScheduleQuery = call.query
    start = after(NOUN, asked.cursor) or asked.after or ""
    rows = await store.listed(
        call.database, call.workspace, start, asked.limit + 1, workflow=asked.workflow, active=asked.active
    )
    return Done(models.Schedules(*page(rows, asked.limit, models.Schedule, by_name(NOUN))))


async def show(call: Call) -> Done:
    """One, and what was done to it."""
    found = await _find(call)
    facts = found | {
        "would_be_refused": await store.fault(call.database, call.workspace, found["name"]),
        "actions": await store.actions(call.database, found["id"], ACTIONS_MAX),
    }
    return Done(msgspec.convert(facts, models.WholeSchedule), headers={"etag": tags.tag(found["version"])})


async def _find(call: Call) -> dict[str, Any]:
    name = call.named("schedule")
    found = await store.show(call.database, call.workspace, name)
    if found is None:
        raise not_found(f"schedule {name}")
    return found


async def put(call: Call) -> Done:
    """Save one."""
    given: models.NewSchedule = call.given
    name = call.named("schedule")
    before = None
    if call.if_match is not None:
        before = (await _find(call))["version"]
        tags.require(call, f"schedule {name}", before)
    asked = Asked(name, given.workflow, given.cron.strip(), given.time_zone, call.raw("input"))
    try:
        answer = await store.put(call.database, call.workspace, asked, call.actor)
    except ScheduleRefused as refused:
        raise faulty(refused.faults) from refused
    found = await _find(call)
    tags.require_next(f"schedule {name}", before, found["version"], created=answer == "changed")
    fault = await store.fault(call.database, call.workspace, name)
    saved = msgspec.convert(found | {"would_be_refused": fault, "answer": answer}, models.SavedSchedule)
    return Done(saved, 201 if answer == "created" else 200, {"etag": tags.tag(found["version"])})


async def activate(call: Call) -> Done:
    """Let one tick."""
    skip_missed = call.given.skip_missed
    try:
        answer = await store.activate(
            call.database, call.workspace, call.named("schedule"), call.actor, skip_missed=skip_missed
        )
    except ScheduleRefused as refused:
        raise _unreadable(call, refused) from refused
    return _switched(call, answer)


def _unreadable(call: Call, refused: ScheduleRefused) -> Problem:
    """Somebody saved it with a program that reads more than this one."""
    return Problem(CONFLICT, f"when the schedule {call.path['name']} ticks cannot be told here: {refused}")


def _switched(call: Call, answer: str) -> Done:
    if answer == "unknown":
        raise not_found(f"schedule {call.path['name']}")
    return Done(models.SwitchedSchedule(call.path["name"], answer))


async def deactivate(call: Call) -> Done:
    """Let one rest."""
    return _switched(call, await store.deactivate(call.database, call.workspace, call.named("schedule"), call.actor))


async def delete(call: Call) -> Done:
    """Delete one; its runs stay."""
    name = call.named("schedule")
    if call.if_match is not None and (newest := await store.keep(call.database, call.workspace, name)) is not None:
        tags.require(call, f"schedule {name}", newest)
    return _switched(call, await store.delete(call.database, call.workspace, name, call.actor))


async def ticks(call: Call) -> Done:
    """When one ticks next."""
    found = await _find(call)
    try:
        cron = Cron(found["cron"], found["time_zone"])
    except ScheduleRefused as refused:
        raise _unreadable(call, refused) from refused
    some = islice(cron.ticks(await store.now(call.database)), call.query.count)
    return Done(models.Ticks([models.Tick(tick, cron.local(tick)) for tick in some]))


ENDPOINTS = (
    Endpoint(
        operation="listSchedules",
        method="GET",
        path="/schedules",
        right=Right.SCHEDULES,
        summary="List schedules by name",
        query=models.ScheduleQuery,
        answer=models.Schedules,
        handle=list_,
    ),
    Endpoint(
        operation="getSchedule",
        method="GET",
        path="/schedules/{name}",
        right=Right.SCHEDULES,
        summary="Show a schedule, what came of its last tick, and who changed what",
        answer=models.WholeSchedule,
        problems=(NOT_FOUND,),
        handle=show,
        tagged=True,
    ),
    Endpoint(
        operation="putSchedule",
        method="PUT",
        path="/schedules/{name}",
        right=Right.SCHEDULES,
        summary="Save a schedule",
        description="A new one is active; one that is there keeps ticking, or resting. Hours that an expression names "
        "are those on the wall: one that clocks skip comes when they have skipped it, one that they show twice comes "
        "once.",
        given=models.NewSchedule,
        example={"workflow": "welcome", "cron": "0 8 * * *", "time_zone": "Europe/Berlin", "input": {"shop": 17}},
        answer=models.SavedSchedule,
        status=201,
        problems=(NOT_FOUND, CHANGED),
        handle=put,
        tagged=True,
    ),
    Endpoint(
        operation="deleteSchedule",
        method="DELETE",
        path="/schedules/{name}",
        right=Right.SCHEDULES,
        summary="Delete a schedule; its runs stay",
        answer=models.SwitchedSchedule,
        problems=(NOT_FOUND, CHANGED),
        handle=delete,
        tagged=True,
    ),
    Endpoint(
        operation="activateSchedule",
        method="POST",
        path="/schedules/{name}/activate",
        right=Right.SCHEDULES,
        summary="Let a schedule tick",
        description="The latest tick that came while it rested runs at once, unless that is skipped.",
        given=models.Activate,
        example={"skip_missed": True},
        answer=models.SwitchedSchedule,
        problems=(NOT_FOUND, CONFLICT),
        handle=activate,
    ),
    Endpoint(
        operation="deactivateSchedule",
        method="POST",
        path="/schedules/{name}/deactivate",
        right=Right.SCHEDULES,
        summary="Let a schedule rest; what it has triggered goes on",
        answer=models.SwitchedSchedule,
        problems=(NOT_FOUND,),
        handle=deactivate,
    ),
    Endpoint(
        operation="getScheduleTicks",
        method="GET",
        path="/schedules/{name}/ticks",
        right=Right.SCHEDULES,
        summary="Show when a schedule ticks next, whether it is active or not",
        query=models.TickQuery,
        answer=models.Ticks,
        problems=(NOT_FOUND, CONFLICT),
        handle=ticks,
    ),
)
