"""The `runs` commands: what workflows do and did, each run with its steps, its log and its deliveries."""

from collections.abc import Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import Annotated, Any

import msgspec
import typer
from msgspec import Raw

from dispatcher.base.values.durations import said
from dispatcher.cli.arguments import moment, object_text
from dispatcher.cli.calls.caller import PAGE_MAX, Caller
from dispatcher.cli.commands import command, group
from dispatcher.cli.failures import FAILED
from dispatcher.cli.options import Reason, require_filter, require_reason
from dispatcher.cli.terminal.console import Output
from dispatcher.cli.terminal.output import cell, show_list, tell
from dispatcher.features.runs import endpoints
from dispatcher.features.runs.dry_run.command import plan
from dispatcher.features.runs.models import Entry, Ordered, RunAttempt, WholeRun
from dispatcher.features.runs.steps import Steps
from dispatcher.features.runs.watch_command import POLL_SECONDS, SECONDS_MAX, Patience, Poll, follow, record
from dispatcher.http.cursors import ID_MAX
from dispatcher.http.endpoints import Endpoint
from dispatcher.http.models import Acted
from dispatcher.http.problems import NOT_FOUND, Problem
from dispatcher.plans.walk.run import RUN_STATUSES

# A node writes two lines or three; one with this many has been replayed often.
ENTRIES_MAX = 10_000
DELIVERIES_SHOWN = 200
# What `show` does not say in a line of its own.
APART = {"execution_id", "id", "steps", "cursor", "counts", "input", "context", "log", "deliveries"}

Id = Annotated[int, typer.Argument(min=1, max=ID_MAX, metavar="ID")]
Ids = Annotated[list[int], typer.Argument(min=1, max=ID_MAX, metavar="ID...")]

app = group(help="List, show and watch runs; pause, resume, cancel and retry them.")


@command(app, "pause", acts=True, spans=True)
def pause(caller: Caller, ids: Ids, reason: Reason) -> None:
    """Pause runs: they go no further, and what they have queued waits."""
    _act(caller, endpoints.pause_run, ids, reason)


@command(app, "resume", acts=True, spans=True)
def resume(caller: Caller, ids: Ids, reason: Reason) -> None:
    """Let paused runs go on."""
    _act(caller, endpoints.resume_run, ids, reason)


@command(app, "cancel", acts=True, spans=True)
def cancel(caller: Caller, ids: Ids, reason: Reason) -> None:
    """Cancel runs: what they have queued is skipped, and nothing more is sent."""
    _act(caller, endpoints.cancel_run, ids, reason)


@command(app, "retry", acts=True, spans=True)
def retry(caller: Caller, ids: Ids, reason: Reason) -> None:
    """Let failed runs go on from the node that failed. What was sent stays sent."""
    _act(caller, endpoints.replay_run, ids, reason)


@command(app, "signal", acts=True, spans=True)
def signal(
    caller: Caller,
    run_id: Id,
    event: Annotated[str, typer.Argument(metavar="EVENT")],
    data: Annotated[
        str, typer.Option(metavar="JSON|@FILE|-", help="What it says, as an object; - is the standard input.")
    ] = "{}",
) -> None:
    """Send a run an event. It is kept for the node that waits for it, also where the run comes there later."""
    require_filter("EVENT", event)
    _each(caller, endpoints.signal_run, [run_id], {"event": event, "data": Raw(object_text("--data", data).encode())})


def _act(caller: Caller, endpoint: Endpoint, ids: Sequence[int], reason: str) -> None:
    require_reason(reason)
    _each(caller, endpoint, ids, {"reason": reason})


def _each(caller: Caller, endpoint: Endpoint, ids: Sequence[int], body: Mapping[str, object]) -> None:
    """Do something to each run, say what became of it, and end with a code that says whether all of it was done."""
    all_done = True
    for run_id in dict.fromkeys(ids):
        try:
            acted: Acted = caller.ask(endpoint, run_id, body=body)
            done, answer, words = True, acted.answer, acted.message
        except Problem as problem:
            if problem.kind is not NOT_FOUND and not problem.answer:
                raise
            done, answer, words = False, problem.answer or "unknown", problem.detail
        tell(caller, {"execution_id": run_id, "done": done, "answer": answer, "message": words}, words)
        all_done = all_done and done
    if not all_done:
        raise typer.Exit(FAILED)


command(app, "plan")(plan)


@command(app, "list", limit=20, after=False, spans=True)
def list_(
    caller: Caller,
    *,
    workflow: Annotated[str | None, typer.Option(help="Of one workflow.")] = None,
    status: Annotated[str | None, typer.Option(help=f"One of {', '.join(RUN_STATUSES)}.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Begun since then: RFC 3339, or so long ago, such as 2h30m.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="With this key.")] = None,
    before: Annotated[int, typer.Option(min=1, max=ID_MAX, metavar="ID", help="Only older ones.")] = ID_MAX,
) -> None:
    """List the newest runs."""
    if status is not None and status not in RUN_STATUSES:
        raise typer.BadParameter(f"expected one of {', '.join(RUN_STATUSES)}", param_hint="--status")
    require_filter("--key", key)
    begun = None if since is None else moment("--since", since)
    asked = {"workflow": workflow, "status": status, "since": begun, "idempotency_key": key, "before": before}
    found = [record(row) for row in caller.listed(endpoints.list_runs, **asked)]
    columns = ("id", "workflow", "version", "status", "at", "key", "begun", "took", "error")
    show_list(caller, found, columns, _cells, "There are no such runs.")
    if len(found) == caller.given.limit:
        caller.output.info(f"older ones: --before {found[-1]['id']}")


def _cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    at = ", ".join(row["current_steps"])
    took = "" if row["finished_at"] is None else said((row["finished_at"] - row["created_at"]).total_seconds())
    begun = f"{row['created_at']:%Y-%m-%d %H:%M:%S}"
    key = row["idempotency_key"]
    return row["id"], row["workflow"], row["version"], row["status"], at, key, begun, took, row["error"]


@command(app, "show", limit=DELIVERIES_SHOWN, after=False, spans=True)
def show(caller: Caller, run_id: Id) -> None:
    """Show a run: its steps, what it knows, its log, and what became of its deliveries, as many as --limit says."""
    show_run(caller, run_id, caller.given.limit)


def show_run(caller: Caller, run_id: int, most: int = DELIVERIES_SHOWN) -> None:
    """Show a run with its log, and with so many of its deliveries."""
    found: WholeRun = caller.ask(endpoints.get_run, run_id)
    entries = list(islice(caller.every(endpoints.get_run_log, run_id), ENTRIES_MAX))
    log = sorted([*entries, *found.attempts], key=attrgetter("at"))
    deliveries = list(islice(caller.every(endpoints.list_run_deliveries, run_id, size=min(PAGE_MAX, most)), most))
    facts = record(found) | {"log": log, "deliveries": deliveries}
    del facts["attempts"]
    if caller.output.as_json:
        caller.output.record(facts)
        return
    _show_facts(caller.output, facts)
    _show_steps(caller.output, found, entries)
    caller.output.text()
    caller.output.table(("at", "what happened", "node", "to", "why, or what was added"), map(_log_cells, log))
    if deliveries:
        caller.output.text()
        columns = ("id", "node", "channel", "to", "life", "tries", "due or ended", "error")
        caller.output.table(columns, map(_delivery_cells, deliveries))
    if more := found.deliveries_total - len(deliveries):
        caller.output.info(f"{more:,} further deliveries: --limit")


def _show_facts(output: Output, facts: Mapping[str, Any]) -> None:
    lines = [(name, cell(value)) for name, value in facts.items() if value and name not in APART]
    output.table(("run", str(facts["id"])), lines)
    for name in ("input", "context"):
        output.text(f"\n{name}")
        output.content(msgspec.json.format(bytes(facts[name]), indent=2).decode())


def _show_steps(output: Output, found: WholeRun, entries: Sequence[Entry]) -> None:
    steps = Steps(found.steps)
    steps.read(entries)
    rows = steps.rows(found, found.cursor, found.counts)
    output.text()
    output.table(
        ("step", "node", "what it does", "state", ""), ((r.step, r.node, r.what, r.state, r.note) for r in rows)
    )


def _log_cells(one: Entry | RunAttempt) -> tuple[object, ...]:
    at = f"{one.at:%Y-%m-%d %H:%M:%S.%f}"
    if isinstance(one, Entry):
        return at, one.event, one.node, None, one.error or cell(one.added)
    again = "" if one.next_at is None else f"; again at {one.next_at:%H:%M:%S}"
    return at, f"{one.event} (attempt {one.attempt})", one.node, one.recipient, f"{one.error or ''}{again}"


def _delivery_cells(row: Ordered) -> tuple[object, ...]:
    when = row.finished_at or row.run_at
    tries = f"{row.attempt}/{row.max_attempts}"
    return row.id, row.node, row.channel, row.recipient, row.life, tries, f"{when:%Y-%m-%d %H:%M:%S}", row.error


@command(app, "watch", spans=True)
def watch(
    caller: Caller,
    run_id: Id,
    timeout: Annotated[
        float | None, typer.Option(min=0, max=SECONDS_MAX, help="For so many seconds at the most; to its end without.")
    ] = None,
    poll: Poll = POLL_SECONDS,
) -> None:
    """Show the progress of a run, and end as it does: the exit code is 0 where it is completed."""
    follow(caller, run_id, Patience(poll, timeout))
