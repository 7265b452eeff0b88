"""The `schedules` commands: workflows that the clock triggers."""

from typing import Annotated, Any

import msgspec
import typer
from msgspec import Raw

from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.commands import command, group
from dispatcher.cli.options import second
from dispatcher.cli.terminal.console import plain
from dispatcher.cli.terminal.output import cell, show_facts, show_list, tell
from dispatcher.features.schedules import endpoints
from dispatcher.features.schedules.models import (
    TICKS_MAX,
    SavedSchedule,
    Schedule,
    ScheduleAction,
    SwitchedSchedule,
    Tick,
    Ticks,
    WholeSchedule,
)

_input = msgspec.json.Decoder(dict[str, Any]).decode

app = group(
    help="Trigger workflows by the clock: one run for each tick, whatever dies and however many replicas there are."
)

Name = Annotated[str, typer.Argument(metavar="NAME")]


@command(app, "put", acts=True)
def put(
    caller: Caller,
    name: Name,
    *,
    workflow: Annotated[str, typer.Option(help="The workflow that it triggers.")],
    cron: Annotated[
        str, typer.Option(help="When: minute, hour, day of the month, month, day of the week; or @daily and the like.")
    ],
    time_zone: Annotated[str, typer.Option(help="The time zone of these hours, like Europe/Berlin.")] = "UTC",
    given: Annotated[str, typer.Option("--input", metavar="JSON", help="The input of each run, as an object.")] = "{}",
) -> None:
    """Save a schedule. A new one is active; one that is there keeps ticking, or resting.

    Each run's input has the tick as `scheduled_for`, unless --input has that name. Hours that an expression names are
    those on the wall: one that clocks skip comes when they have skipped it, one that they show twice comes once.
    """
    body = {"workflow": workflow, "cron": cron, "time_zone": time_zone, "input": _object(given)}
    found: SavedSchedule = caller.ask(endpoints.put_schedule, name, body=body)
    done = {"created": "is saved", "changed": "is changed", "same": "says this already"}[found.answer]
    tell(caller, found, f"schedule {name} {done}; {_when(found)}")
    if found.would_be_refused is not None:
        caller.output.info(plain(f"as it stands, its ticks will be refused: {found.would_be_refused}"))


@command(app, "list", limit=100)
def list_(caller: Caller) -> None:
    """List the schedules of a workspace by name."""
    columns = ("name", "workflow", "when", "next", "last", "result")
    show_list(caller, caller.listed(endpoints.list_schedules), columns, _cells, "There are no schedules here.")


@command(app, "show")
def show(caller: Caller, name: Name) -> None:
    """Show a schedule, the result of its last tick, and its actions."""
    found: WholeSchedule = caller.ask(endpoints.get_schedule, name)
    show_facts(caller, "schedule", name, found, "actions")
    if caller.output.as_json:
        return
    caller.output.text()
    show_list(caller, found.actions, ("at", "by", "did", "version", "workflow", "when"), _of_action, "")


@command(app, "activate", acts=True)
def activate(
    caller: Caller,
    name: Name,
    *,
    skip_missed: Annotated[
        bool, typer.Option("--skip-missed", help="Go on from now; else the latest tick that it missed runs.")
    ] = False,
) -> None:
    """Let a schedule tick. The latest tick that came while it rested runs at once, the others do not."""
    done: SwitchedSchedule = caller.ask(endpoints.activate_schedule, name, body={"skip_missed": skip_missed})
    found: WholeSchedule = caller.ask(endpoints.get_schedule, name)
    tell(
        caller, done, f"schedule {name} {'was active before' if done.answer == 'same' else 'is active'}; {_when(found)}"
    )


@command(app, "deactivate", acts=True)
def deactivate(caller: Caller, name: Name) -> None:
    """Let a schedule rest. What it has triggered goes on."""
    done: SwitchedSchedule = caller.ask(endpoints.deactivate_schedule, name)
    tell(caller, done, f"schedule {name} {'rested before' if done.answer == 'same' else 'rests'}")


@command(app, "delete", acts=True)
def delete(caller: Caller, name: Name) -> None:
    """Delete a schedule. Its runs stay."""
    tell(caller, caller.ask(endpoints.delete_schedule, name), f"schedule {name} is deleted")


@command(app, "next")
def next_(
    caller: Caller, name: Name, count: Annotated[int, typer.Option("-n", min=1, max=TICKS_MAX, help="How many.")] = 5
) -> None:
    """Show when a schedule ticks next, whether it is active or not."""
    zone = caller.ask(endpoints.get_schedule, name).time_zone
    found: Ticks = caller.ask(endpoints.get_schedule_ticks, name, count=count)
    show_list(caller, found.ticks, ("tick", zone), _of_tick, f"schedule {name} ticks no more")


def _object(text: str) -> Raw:
    try:
        _input(text)
    except (ValueError, RecursionError) as fault:
        raise typer.BadParameter(f"not a JSON object: {fault}", param_hint="--input") from fault
    return Raw(text.encode())


def _when(found: Schedule) -> str:
    if not found.active:
        return "it rests"
    return "it ticks no more" if found.next_at is None else f"its next tick is {second(found.next_at)}"


def _cells(row: Schedule) -> tuple[object, ...]:
    soon = cell(row.next_at) if row.active else "rests"
    came = f"run {row.last_run}" if row.last_run is not None else f"refused: {row.refusal}"
    last = ("", "") if row.last_tick is None else (second(row.last_tick), came)
    return row.name, row.workflow, f"{row.cron} {row.time_zone}", soon, *last


def _of_action(one: ScheduleAction) -> tuple[object, ...]:
    return second(one.at), one.actor, one.action, one.version, one.workflow, f"{one.cron} {one.time_zone}"


def _of_tick(one: Tick) -> tuple[object, ...]:
    return second(one.tick), f"{one.local:%a %Y-%m-%d %H:%M:%S %z}"
