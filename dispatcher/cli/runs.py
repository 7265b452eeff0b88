"""The `runs` commands: what workflows do and did, each run with its steps, its log and its deliveries."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import msgspec
import typer

from dispatcher.cli import run_acting
from dispatcher.cli.commands import command, group
from dispatcher.cli.deliveries import ID_MAX, LIMIT_MAX
from dispatcher.cli.failures import FAILED
from dispatcher.cli.given import moment
from dispatcher.cli.operating import require_filter, second
from dispatcher.cli.run_acting import Id
from dispatcher.cli.run_plan import plan
from dispatcher.cli.run_steps import Steps
from dispatcher.cli.session import Session
from dispatcher.cli.voice import Voice
from dispatcher.cli.watching import POLL_SECONDS, SECONDS_MAX, Patience, Poll, follow, record
from dispatcher.domain.plans.run import RUN_STATUSES
from dispatcher.domain.plans.times import said
from dispatcher.store.runs import Filter

# In the order in which they are read.
FACTS = (
    "tenant_id",
    "workspace_id",
    "workflow",
    "version",
    "status",
    "current_steps",
    "total_steps",
    "idempotency_key",
    "triggered_by",
    "retries",
    "error",
    "error_node",
    "note",
    "available_at",
    "created_at",
    "started_at",
    "finished_at",
    "paused_at",
    "discarded_at",
    "held",
    "deliveries_total",
)

app = group(help="List, show and watch runs; pause, resume, cancel and retry them.")
command(app, "pause")(run_acting.pause)
command(app, "resume")(run_acting.resume)
command(app, "cancel")(run_acting.cancel)
command(app, "retry")(run_acting.retry)
command(app, "signal")(run_acting.signal)
command(app, "plan")(plan)


@command(app, "list")
def list_(  # noqa: PLR0913 - each is an option of the command line
    session: Session,
    *,
    workflow: Annotated[str | None, typer.Option(help="Of one workflow.")] = None,
    status: Annotated[str | None, typer.Option(help=f"One of {', '.join(RUN_STATUSES)}.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Begun since then: RFC 3339, or so long ago, such as 2h30m.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="With this key.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Of one tenant.")] = None,
    workspace: Annotated[str | None, typer.Option(help="Of one workspace.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=LIMIT_MAX, help="How many.")] = 20,
    before: Annotated[int, typer.Option(min=1, max=ID_MAX, metavar="ID", help="Only older ones.")] = ID_MAX,
) -> None:
    """List the newest runs."""
    if status is not None and status not in RUN_STATUSES:
        raise typer.BadParameter(f"expected one of {', '.join(RUN_STATUSES)}", param_hint="--status")
    texts = {"--workflow": workflow, "--key": key, "--tenant": tenant, "--workspace": workspace}
    for option, text in texts.items():
        require_filter(option, text)
    which = Filter(
        workflow=workflow,
        status=status,
        since=None if since is None else moment("--since", since),
        tenant_id=tenant,
        workspace_id=workspace,
        key=key,
    )
    with session.doors() as doors:
        found = session.run(lambda: doors.runs.listed(which, before, limit))
    if session.voice.as_json:
        for row in found:
            session.voice.record(record(row))
        return
    columns = ("id", "workflow", "version", "status", "at", "key", "begun", "took", "error")
    session.voice.table(columns, map(_cells, found))
    if len(found) == limit:
        session.voice.say(f"older ones: --before {found[-1]['id']}")


def _cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    at = ", ".join(row["current_steps"])
    took = "" if row["finished_at"] is None else said((row["finished_at"] - row["created_at"]).total_seconds())
    begun = f"{row['created_at']:%Y-%m-%d %H:%M:%S}"
    key = row["idempotency_key"]
    return row["id"], row["workflow"], row["version"], row["status"], at, key, begun, took, row["error"]


@command(app, "show")
def show(
    session: Session,
    run_id: Id,
    limit: Annotated[int, typer.Option(min=1, max=LIMIT_MAX, help="Of how many deliveries.")] = 200,
) -> None:
    """Show a run: its steps, what it knows, its log, and what became of its deliveries."""
    with session.doors() as doors:
        found = session.run(lambda: doors.runs.show(run_id, limit))
    if found is None:
        session.voice.fail("NotFound", f"there is no run {run_id}")
        raise typer.Exit(FAILED)
    if session.voice.as_json:
        session.voice.record(record(found))
    else:
        _show_all(session.voice, found)


def _show_all(voice: Voice, found: Mapping[str, Any]) -> None:
    facts = [(name, _fact(found[name])) for name in FACTS if found[name]]
    voice.table(("run", str(found["id"])), facts)
    for name in ("input", "context"):
        voice.text(f"\n{name}")
        voice.content(msgspec.json.format(bytes(found[name]), indent=2).decode())
    steps = Steps(found["steps"])
    steps.read(entry for entry in found["log"] if "number" in entry)
    rows = steps.rows(found, found["cursor"], found["counts"])
    voice.text()
    voice.table(
        ("step", "node", "what it does", "state", ""), ((r.step, r.node, r.what, r.state, r.note) for r in rows)
    )
    voice.text()
    voice.table(("at", "what happened", "node", "to", "why, or what was added"), map(_log_cells, found["log"]))
    if found["deliveries"]:
        voice.text()
        columns = ("id", "node", "channel", "to", "life", "tries", "due or ended", "error")
        voice.table(columns, map(_delivery_cells, found["deliveries"]))
    more = found["deliveries_total"] - len(found["deliveries"])
    if more:
        voice.say(f"{more:,} further deliveries: --limit")


def _fact(value: object) -> str:
    match value:
        case datetime():
            return second(value)
        case list():
            return ", ".join(map(str, value))
        case _:
            return str(value)


def _log_cells(entry: Mapping[str, Any]) -> tuple[object, ...]:
    why = entry.get("error") or (bytes(entry["added"]).decode() if "added" in entry else "")
    if "next_at" in entry:
        why = f"{why}; again at {entry['next_at']:%H:%M:%S}"
    attempt = f" (attempt {entry['attempt']})" if "attempt" in entry else ""
    return (
        f"{entry['at']:%Y-%m-%d %H:%M:%S.%f}",
        entry["event"] + attempt,
        entry.get("node"),
        entry.get("recipient"),
        why,
    )


def _delivery_cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    when = row["finished_at"] or row["run_at"]
    tries = f"{row['attempt']}/{row['max_attempts']}"
    ended = f"{when:%Y-%m-%d %H:%M:%S}"
    return row["id"], row["node"], row["channel"], row["recipient"], row["life"], tries, ended, row["error"]


@command(app, "watch")
def watch(
    session: Session,
    run_id: Id,
    timeout: Annotated[
        float | None, typer.Option(min=0, max=SECONDS_MAX, help="For so many seconds at the most; to its end without.")
    ] = None,
    poll: Poll = POLL_SECONDS,
) -> None:
    """Show the progress of a run, and end as it does: the exit code is 0 where it is completed."""
    with session.doors() as doors:
        follow(session, doors, run_id, Patience(poll, timeout))
