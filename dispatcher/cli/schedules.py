"""The `schedules` commands: workflows that the clock triggers."""

from datetime import datetime
from typing import Annotated, Any

import msgspec
import typer

from dispatcher.cli.commands import command, group
from dispatcher.cli.deliveries import LIMIT_MAX
from dispatcher.cli.failures import FAILED
from dispatcher.cli.operating import Actor, require_after, require_words, second, who
from dispatcher.cli.program import launcher
from dispatcher.cli.session import Session
from dispatcher.cli.template_work import InWorkspace, Tenant, place
from dispatcher.cli.voice import plain
from dispatcher.doors.kept import Schedules
from dispatcher.doors.nouns import Whose
from dispatcher.store.schedules import Asked

NEXT_MAX = 1_000
# In the order in which they are shown.
_FACTS = (
    "id",
    "name",
    "workflow",
    "cron",
    "time_zone",
    "input",
    "version",
    "active",
    "next_at",
    "last_tick",
    "last_run",
    "refusal",
    "missed",
    "created_at",
    "would_be_refused",
)
_input = msgspec.json.Decoder(dict[str, Any]).decode

app = group(
    help="Trigger workflows by the clock: one run for each tick, whatever dies and however many replicas there are."
)

Name = Annotated[str, typer.Argument(metavar="NAME")]


@command(app, "put")
def put(  # noqa: PLR0913 - each is an option of the command line
    session: Session,
    name: Name,
    *,
    workflow: Annotated[str, typer.Option(help="Which workflow it triggers.")],
    cron: Annotated[
        str, typer.Option(help="When: minute, hour, day of the month, month, day of the week; or @daily and the like.")
    ],
    time_zone: Annotated[str, typer.Option(help="By the clocks of which zone, like Europe/Berlin.")] = "UTC",
    given: Annotated[str, typer.Option("--input", metavar="JSON", help="What each run is given, as an object.")] = "{}",
    actor: Actor = None,
    tenant: Tenant = None,
    workspace: InWorkspace = None,
) -> None:
    """Save a schedule. A new one is active; one that is there keeps ticking, or resting.

    Each run's input has the tick as `scheduled_for`, unless --input has that name. Hours that an expression names are
    those on the wall: one that clocks skip comes when they have skipped it, one that they show twice comes once.
    """
    by, here = who(session, actor), place(tenant, workspace)
    for option, text in (("NAME", name), ("--workflow", workflow), ("--cron", cron), ("--time-zone", time_zone)):
        require_words(option, text)
    asked = Asked(name, workflow, cron.strip(), time_zone, _object(given))
    with session.doors() as doors:
        found = session.run(lambda: doors.schedules.put(here, asked, by))
    if session.voice.as_json:
        session.voice.record(found)
        return
    fault = found["would_be_refused"]
    done = {"created": "is saved", "changed": "is changed", "same": "says this already"}[found["answer"]]
    session.voice.text(plain(f"schedule {name} {done}; {_when(found)}"))
    if fault is not None:
        session.voice.say(plain(f"as it stands, its ticks will be refused: {fault}"))


@command(app, "list")
def list_(
    session: Session,
    after: Annotated[str, typer.Option(help="Begin behind this name.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=LIMIT_MAX, help="How many.")] = 100,
    tenant: Tenant = None,
    workspace: InWorkspace = None,
) -> None:
    """List the schedules of a workspace by name."""
    here = place(tenant, workspace)
    require_after(after)
    with session.doors() as doors:
        found = session.run(lambda: doors.schedules.listed(here, after, limit))
    if session.voice.as_json:
        for row in found:
            session.voice.record(row)
    elif found:
        session.voice.table(("name", "workflow", "when", "next", "last", "came of it"), (_cells(row) for row in found))
        if len(found) == limit:
            session.voice.say(f"there may be more: see --after {found[-1]['name']}")
    else:
        session.voice.text("There are no schedules here.")


@command(app, "show")
def show(session: Session, name: Name, tenant: Tenant = None, workspace: InWorkspace = None) -> None:
    """Show a schedule, what came of its last tick, and who changed what."""
    here = place(tenant, workspace)
    require_words("NAME", name)
    with session.doors() as doors:
        found = _found(session, doors.schedules, here, name)
    if session.voice.as_json:
        session.voice.record(found)
        return
    shown = found | {"input": bytes(found["input"]).decode()}
    rows = ((key.replace("_", " "), _shown(shown[key])) for key in _FACTS if shown[key] is not None)
    session.voice.table(("schedule", name), rows)
    session.voice.text()
    session.voice.table(
        ("at", "by", "did", "version", "workflow", "when"),
        (
            (second(one["at"]), one["actor"], one["action"], one["version"], one["workflow"], _times(one))
            for one in found["actions"]
        ),
    )


@command(app, "activate")
def activate(
    session: Session,
    name: Name,
    *,
    skip_missed: Annotated[
        bool, typer.Option("--skip-missed", help="Go on from now; else the latest tick that it missed runs.")
    ] = False,
    actor: Actor = None,
    tenant: Tenant = None,
    workspace: InWorkspace = None,
) -> None:
    """Let a schedule tick. The latest tick that came while it rested runs at once, the others do not."""
    by, here = who(session, actor), place(tenant, workspace)
    require_words("NAME", name)
    with session.doors() as doors:
        answer = session.run(lambda: doors.schedules.activate(here, name, by, skip_missed=skip_missed))
        found = _found(session, doors.schedules, here, name)
    _tell(session, name, answer, f"{'was active before' if answer == 'same' else 'is active'}; {_when(found)}")


@command(app, "deactivate")
def deactivate(
    session: Session, name: Name, actor: Actor = None, tenant: Tenant = None, workspace: InWorkspace = None
) -> None:
    """Let a schedule rest. What it has triggered goes on."""
    by, here = who(session, actor), place(tenant, workspace)
    require_words("NAME", name)
    with session.doors() as doors:
        answer = session.run(lambda: doors.schedules.deactivate(here, name, by))
    if answer == "unknown":
        raise _unknown(session, name)
    _tell(session, name, answer, "rested before" if answer == "same" else "rests")


@command(app, "delete")
def delete(
    session: Session, name: Name, actor: Actor = None, tenant: Tenant = None, workspace: InWorkspace = None
) -> None:
    """Delete a schedule. Its runs stay."""
    by, here = who(session, actor), place(tenant, workspace)
    require_words("NAME", name)
    with session.doors() as doors:
        answer = session.run(lambda: doors.schedules.delete(here, name, by))
    if answer == "unknown":
        raise _unknown(session, name)
    _tell(session, name, answer, "is deleted")


@command(app, "next")
def next_(
    session: Session,
    name: Name,
    count: Annotated[int, typer.Option("-n", min=1, max=NEXT_MAX, help="How many.")] = 5,
    tenant: Tenant = None,
    workspace: InWorkspace = None,
) -> None:
    """Show when a schedule ticks next, whether it is active or not."""
    here = place(tenant, workspace)
    require_words("NAME", name)
    with session.doors() as doors:
        found = _found(session, doors.schedules, here, name)
        ticks = session.run(lambda: doors.schedules.ticks(here, name, count)) or []
    if session.voice.as_json:
        for one in ticks:
            session.voice.record({"tick": one.tick, "local": one.local})
    else:
        session.voice.table(("tick", found["time_zone"]), ((second(one.tick), _local(one.local)) for one in ticks))


def _found(session: Session, schedules: Schedules, here: Whose, name: str) -> dict[str, Any]:
    """The schedule; the command ends where there is none."""
    found = session.run(lambda: schedules.show(here, name))
    if found is None:
        raise _unknown(session, name)
    return found


def _unknown(session: Session, name: str) -> typer.Exit:
    session.voice.fail("NotFound", f"there is no schedule {name}; see `{launcher()} schedules list`")
    return typer.Exit(FAILED)


def _tell(session: Session, name: str, answer: str, words: str) -> None:
    if session.voice.as_json:
        session.voice.record({"name": name, "answer": answer})
    else:
        session.voice.text(plain(f"schedule {name} {words}"))


def _object(text: str) -> str:
    try:
        _input(text)
    except (ValueError, RecursionError) as fault:
        raise typer.BadParameter(f"not a JSON object: {fault}", param_hint="--input") from fault
    return text


def _when(row: dict[str, Any]) -> str:
    if not row["active"]:
        return "it rests"
    return "it ticks no more" if row["next_at"] is None else f"its next tick is {second(row['next_at'])}"


def _times(row: dict[str, Any]) -> str:
    return f"{row['cron']} {row['time_zone']}"


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    soon = ("" if row["next_at"] is None else second(row["next_at"])) if row["active"] else "rests"
    if row["last_tick"] is None:
        return row["name"], row["workflow"], _times(row), soon, "", ""
    came = f"run {row['last_run']}" if row["last_run"] is not None else f"refused: {row['refusal']}"
    return row["name"], row["workflow"], _times(row), soon, second(row["last_tick"]), came


def _shown(value: object) -> object:
    match value:
        case datetime():
            return second(value)
        case bool():
            return "yes" if value else "no"
        case _:
            return value


def _local(at: datetime) -> str:
    return f"{at:%a %Y-%m-%d %H:%M:%S %z}"
