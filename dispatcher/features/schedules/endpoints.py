"""The endpoints of schedules: save, list, show, activate, deactivate and delete them; show their next ticks."""

from itertools import islice
from typing import Any

import msgspec

from dispatcher.base.errors import ScheduleRefused
from dispatcher.db import timestamps
from dispatcher.features.schedules import models, store
from dispatcher.features.schedules.rules import Cron
from dispatcher.http import etags
from dispatcher.http.cursors import read_name
from dispatcher.http.endpoints import Call, Done, endpoint
from dispatcher.http.listing import by_name, page
from dispatcher.http.problems import CHANGED, CONFLICT, NOT_FOUND, Problem, faulty, not_found
from dispatcher.http.roles import Right

NOUN = "schedules"
ACTIONS_MAX = 20
_RIGHT = Right.SCHEDULES
_PATH = "/schedules/{name}"
_UNREADABLE = (NOT_FOUND, CONFLICT)
_PUT = {"workflow": "welcome", "cron": "0 8 * * *", "time_zone": "Europe/Berlin", "input": {"shop": 17}}


@endpoint("GET", "/schedules", _RIGHT, query=models.ScheduleQuery, answered=models.SCHEDULES)
async def list_schedules(call: Call) -> Done:
    """List schedules by name."""
    asked: models.ScheduleQuery = call.query
    start = read_name(NOUN, asked.cursor) or asked.after or ""
    rows = await store.listed(
        call.database, call.workspace, start, asked.limit + 1, workflow=asked.workflow, active=asked.active
    )
    return Done(models.Schedules(*page(rows, asked.limit, models.Schedule, by_name(NOUN))))


@endpoint("GET", _PATH, _RIGHT, answered=models.WHOLE, problems=(NOT_FOUND,), tagged=True)
async def get_schedule(call: Call) -> Done:
    """Show a schedule, the result of its last tick, and its last actions."""
    found = await _find(call)
    facts = found | {
        "would_be_refused": await store.fault(call.database, call.workspace, found["name"]),
        "actions": await store.actions(call.database, found["id"], ACTIONS_MAX),
    }
    return Done(msgspec.convert(facts, models.WholeSchedule), headers={"etag": etags.tag(found["version"])})


async def _find(call: Call) -> dict[str, Any]:
    name = call.named("schedule")
    found = await store.show(call.database, call.workspace, name)
    if found is None:
        raise not_found(f"schedule {name}")
    return found


@endpoint(
    "PUT",
    _PATH,
    _RIGHT,
    given=models.NewSchedule,
    example=_PUT,
    answered=models.SAVED,
    status=201,
    problems=(NOT_FOUND, CHANGED),
    tagged=True,
)
async def put_schedule(call: Call) -> Done:
    """Save a schedule.

    A new one is active; one that is there keeps ticking, or resting. Hours that an expression names are those on the
    wall: one that clocks skip comes when they have skipped it, one that they show twice comes once.
    """
    given: models.NewSchedule = call.given
    name = call.named("schedule")
    before = None
    if call.if_match is not None:
        before = (await _find(call))["version"]
        etags.require(call, f"schedule {name}", before)
    definition = store.Definition(name, given.workflow, given.cron.strip(), given.time_zone, call.raw("input"))
    try:
        answer = await store.put(call.database, call.workspace, definition, call.actor)
    except ScheduleRefused as refused:
        raise faulty(refused.faults) from refused
    found = await _find(call)
    etags.require_next(f"schedule {name}", before, found["version"], created=answer == "changed")
    fault = await store.fault(call.database, call.workspace, name)
    saved = msgspec.convert(found | {"would_be_refused": fault, "answer": answer}, models.SavedSchedule)
    return Done(saved, 201 if answer == "created" else 200, {"etag": etags.tag(found["version"])})


@endpoint("DELETE", _PATH, _RIGHT, answered=models.SWITCHED, problems=(NOT_FOUND, CHANGED), tagged=True)
async def delete_schedule(call: Call) -> Done:
    """Delete a schedule; its runs stay."""
    name = call.named("schedule")
    if (
        call.if_match is not None
        and (newest := await store.lock_version(call.database, call.workspace, name)) is not None
    ):
        etags.require(call, f"schedule {name}", newest)
    return _switched(call, await store.delete(call.database, call.workspace, name, call.actor))


@endpoint(
    "POST",
    f"{_PATH}/activate",
    _RIGHT,
    given=models.Activate,
    example={"skip_missed": True},
    answered=models.SWITCHED,
    problems=_UNREADABLE,
)
async def activate_schedule(call: Call) -> Done:
    """Let a schedule tick.

    The latest tick that came while it rested runs at once, unless that is skipped.
    """
    skip_missed = call.given.skip_missed
    try:
        answer = await store.activate(
            call.database, call.workspace, call.named("schedule"), call.actor, skip_missed=skip_missed
        )
    except ScheduleRefused as refused:
        raise _unreadable(call, refused) from refused
    return _switched(call, answer)


def _unreadable(call: Call, refused: ScheduleRefused) -> Problem:
    """Return the answer about a schedule that a newer version of the program has saved."""
    return Problem(CONFLICT, f"when the schedule {call.path['name']} ticks cannot be computed here: {refused}")


def _switched(call: Call, answer: str) -> Done:
    if answer == "unknown":
        raise not_found(f"schedule {call.path['name']}")
    return Done(models.SwitchedSchedule(call.path["name"], answer))


@endpoint("POST", f"{_PATH}/deactivate", _RIGHT, answered=models.SWITCHED, problems=(NOT_FOUND,))
async def deactivate_schedule(call: Call) -> Done:
    """Let a schedule rest; what it has triggered goes on."""
    return _switched(call, await store.deactivate(call.database, call.workspace, call.named("schedule"), call.actor))


@endpoint(
    "GET", f"{_PATH}/ticks", _RIGHT, query=models.TickQuery, answered=models.TICKS, problems=(NOT_FOUND, CONFLICT)
)
async def get_schedule_ticks(call: Call) -> Done:
    """Show when a schedule ticks next, whether it is active or not."""
    found = await _find(call)
    try:
        cron = Cron(found["cron"], found["time_zone"])
    except ScheduleRefused as refused:
        raise _unreadable(call, refused) from refused
    some = islice(cron.ticks(await timestamps.now(call.database)), call.query.count)
    return Done(models.Ticks([models.Tick(tick, cron.local(tick)) for tick in some]))
