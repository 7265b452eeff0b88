"""Schedules: the cron triggers of workflows; saved, activated, deactivated and deleted."""

from typing import Any

from dispatcher.console.page import Answer, Field, Form, Visit, form, page
from dispatcher.console.rendering import plain
from dispatcher.console.switching import switch
from dispatcher.features.schedules.endpoints import (
    activate_schedule,
    deactivate_schedule,
    delete_schedule,
    get_schedule,
    get_schedule_ticks,
    list_schedules,
    put_schedule,
)
from dispatcher.http.problems import CONFLICT, Problem
from dispatcher.http.roles import Right

ROWS = 50


@page("/schedules", Right.SCHEDULES)
async def schedules(visit: Visit) -> Answer:
    """List schedules by name."""
    found = await visit.ask(list_schedules, query={"limit": ROWS, **visit.query})
    return visit.show("system/schedules.html", found=found)


@page("/schedules/{name}", Right.SCHEDULES)
async def schedule(visit: Visit) -> Answer:
    """Show a schedule, its next ticks, and what was done to it."""
    ticks: Any = ()
    try:
        ticks = (await visit.ask(get_schedule_ticks)).ticks
    except Problem as problem:
        # Its expression was saved by a newer version of the program.
        if problem.kind is not CONFLICT:
            raise
    return visit.show("system/schedule.html", one=await visit.ask(get_schedule), ticks=ticks)


def _fields(workflow: str = "", cron: str = "", zone: str = "UTC", given: object = None) -> list[Field]:
    return [
        Field("workflow", "Workflow", value=workflow, required=True),
        Field(
            "cron", "When", value=cron, placeholder="0 8 * * *", hint="Minute, hour, day, month, weekday; or @daily."
        ),
        Field("time_zone", "Time zone", value=zone, required=True),
        Field("input", "Input of its runs", "json", value=given or {}),
    ]


@form("/schedules/new", put_schedule)
async def create(_visit: Visit) -> Form:
    """Make a schedule."""

    async def act(visit: Visit, body: dict[str, Any]) -> Any:  # noqa: ANN401 - a struct of the endpoint's own
        return await visit.ask(put_schedule, body.pop("name"), body=body)

    return Form(
        title="Trigger a workflow by the clock?",
        fields=[Field("name", "Name", required=True), *_fields()],
        button="Save it",
        reason=False,
        act=act,
        back="/schedules",
        done="It is saved, and ticks.",
    )


@form("/schedules/{name}/change", put_schedule)
async def change(visit: Visit) -> Form:
    """Change a schedule."""
    one = await visit.ask(get_schedule)
    return Form(
        title=f"Change {one.name}?",
        fields=_fields(one.workflow, one.cron, one.time_zone, plain(one.input)),
        button="Save it",
        reason=False,
        back=f"/schedules/{one.name}",
        done="It is saved.",
    )


@form("/schedules/{name}/activate", activate_schedule)
async def activate(visit: Visit) -> Form:
    """Let a schedule tick."""
    name = visit.path["name"]
    return Form(
        title=f"Let {name} tick?",
        fields=[
            Field("skip_missed", "Skip what it missed", "check", hint="Else the latest tick that it missed runs now.")
        ],
        button="Let it tick",
        reason=False,
        back=f"/schedules/{name}",
        done=f"{name} ticks.",
    )


DEACTIVATE = switch(
    "/schedules/{name}/deactivate",
    deactivate_schedule,
    title="Let {name} rest?",
    text="What it has triggered goes on.",
    button="Let it rest",
    done="{name} rests.",
)
DELETE = switch(
    "/schedules/{name}/delete",
    delete_schedule,
    title="Delete {name}?",
    text="Its runs stay.",
    button="Delete it",
    done="{name} is deleted.",
    gone=True,
)
