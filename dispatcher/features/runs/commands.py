"""The `runs` commands: list, show and watch runs; pause, resume, cancel, retry and signal them."""

from collections.abc import Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import Annotated, Any

import msgspec
import typer
from msgspec import Raw

from dispatcher.base.values.counts import counted
from dispatcher.base.values.durations import format_duration
from dispatcher.cli.arguments import moment, object_text
from dispatcher.cli.calls.caller import PAGE_MAX, Caller
from dispatcher.cli.commands import command, group
from dispatcher.cli.failures import FAILED
from dispatcher.cli.options import Reason, require_filter, require_reason
from dispatcher.cli.terminal.console import Output
from dispatcher.cli.terminal.output import cell, show_list, tell, tries
from dispatcher.features.runs import endpoints
from dispatcher.features.runs.dry_run.command import plan
from dispatcher.features.runs.models import Entry, Ordered, RunAttempt, WholeRun
from dispatcher.features.runs.steps import Row, Steps
from dispatcher.features.runs.watch_command import POLL_SECONDS, SECONDS_MAX, Poll, PollLimits, follow, record
from dispatcher.http.cursors import ID_MAX
from dispatcher.http.endpoints import Endpoint
from dispatcher.http.models import Acted
from dispatcher.http.problems import NOT_FOUND, Problem
from dispatcher.plans.walk.run import RUN_STATUSES

# A node writes two or three entries; a run with so many was replayed often.
ENTRIES_MAX = 10_000
DELIVERIES_SHOWN = 200
# The fields that `show` does not print in lines of their own.
APART = {"execution_id", "id", "steps", "cursor", "counts", "input", "context", "log", "deliveries"}

Id = Annotated[int, typer.Argument(min=1, max=ID_MAX, metavar="ID")]
Ids = Annotated[list[int], typer.Argument(min=1, max=ID_MAX, metavar="ID...")]

app = group(help="List, show and watch runs; pause, resume, cancel and retry them.")


def _add_action(name: str, endpoint: Endpoint, description: str) -> None:
    def act(caller: Caller, ids: Ids, reason: Reason) -> None:
        require_reason(reason)
        _each(caller, endpoint, ids, {"reason": reason})

    act.__doc__ = description
    command(app, name, acts=True, spans=True)(act)


_add_action("pause", endpoints.pause_run, "Pause runs: they go no further, and what they have queued waits.")
_add_action("resume", endpoints.resume_run, "Let paused runs go on.")
_add_action("cancel", endpoints.cancel_run, "Cancel runs: what they have queued is skipped, and nothing more is sent.")
_add_action("retry", endpoints.replay_run, "Let failed runs go on from the node that failed. What was sent stays sent.")


@command(app, "signal", acts=True, spans=True)
def signal(
    caller: Caller,
    run_id: Id,
    event: Annotated[str, typer.Argument(metavar="EVENT")],
    data: Annotated[
        str, typer.Option(metavar="JSON|@FILE|-", help="Its data, as an object; - is the standard input.")
    ] = "{}",
) -> None:
    """Send a run an event. It is stored until a node waits for it."""
    require_filter("EVENT", event)
    _each(caller, endpoints.signal_run, [run_id], {"event": event, "data": Raw(object_text("--data", data).encode())})


def _each(caller: Caller, endpoint: Endpoint, ids: Sequence[int], body: Mapping[str, object]) -> None:
    """Call an endpoint for each run and show its answer; exit with FAILED unless all were done."""
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
    took = (
        "" if row["finished_at"] is None else format_duration((row["finished_at"] - row["created_at"]).total_seconds())
    )
    begun = f"{row['created_at']:%Y-%m-%d %H:%M:%S}"
    key = row["idempotency_key"]
    return row["id"], row["workflow"], row["version"], row["status"], at, key, begun, took, row["error"]


@command(app, "show", limit=DELIVERIES_SHOWN, after=False, spans=True)
def show(
    caller: Caller,
    run_id: Id,
    *,
    graph: Annotated[bool, typer.Option("--graph", help="Only the graph, drawn, with the state of each node.")] = False,
) -> None:
    """Show a run: its steps, input, context and log, and as many of its deliveries as --limit says."""
    if graph:
        _show_graph(caller, run_id)
    else:
        show_run(caller, run_id, caller.given.limit)


def _show_graph(caller: Caller, run_id: int) -> None:
    found: WholeRun = caller.ask(endpoints.get_run, run_id)
    states = {row.node: row.state for row in _steps(found, _log(caller, run_id))}
    if caller.output.as_json:
        for line in found.graph:
            state = {} if line.node is None else {"state": states[line.node] or None}
            caller.output.record({"text": line.text, "node": line.node} | state)
        return
    width = max(map(len, states.values()))
    for line in found.graph:
        caller.output.clipped(f"{states.get(line.node or '', ''):{width}} {line.text}")


def _log(caller: Caller, run_id: int) -> list[Entry]:
    return list(islice(caller.every(endpoints.get_run_log, run_id), ENTRIES_MAX))


def _steps(found: WholeRun, entries: Sequence[Entry]) -> list[Row]:
    """Return the state of each node."""
    steps = Steps(found.steps)
    steps.read(entries)
    return steps.rows(found, found.cursor, found.counts)


def show_run(caller: Caller, run_id: int, most: int = DELIVERIES_SHOWN) -> None:
    """Show a run with its log and at most so many deliveries."""
    found: WholeRun = caller.ask(endpoints.get_run, run_id)
    entries = _log(caller, run_id)
    log: list[Entry | RunAttempt] = sorted([*entries, *found.attempts], key=attrgetter("at"))
    deliveries = list(islice(caller.every(endpoints.list_run_deliveries, run_id, size=min(PAGE_MAX, most)), most))
    facts = record(found) | {"log": log, "deliveries": deliveries}
    del facts["attempts"], facts["graph"]
    if caller.output.as_json:
        caller.output.record(facts)
        return
    _show_facts(caller.output, facts)
    _show_steps(caller.output, found, entries)
    caller.output.text()
    caller.output.table(("time", "what happened", "node", "why, or what was added"), map(_log_cells, log))
    if deliveries:
        caller.output.text()
        columns = ("id", "node", "channel", "to", "life", "tries", "due or ended", "error")
        caller.output.table(columns, map(_delivery_cells, deliveries))
    if more := found.deliveries_total - len(deliveries):
        caller.output.info(f"{counted(more, 'further delivery', 'further deliveries')}: --limit")


def _show_facts(output: Output, facts: Mapping[str, Any]) -> None:
    lines = [(name, cell(value)) for name, value in facts.items() if value and name not in APART]
    output.table(("run", str(facts["id"])), lines)
    for name in ("input", "context"):
        output.text(f"\n{name}")
        for line in msgspec.json.format(bytes(facts[name]), indent=2).decode().splitlines():
            output.clipped(line)


def _show_steps(output: Output, found: WholeRun, entries: Sequence[Entry]) -> None:
    rows = ((row.step, row.node, row.what, row.state, row.note) for row in _steps(found, entries))
    output.text()
    output.table(("step", "node", "what it does", "state", ""), rows)


def _log_cells(one: Entry | RunAttempt) -> tuple[object, ...]:
    at = f"{one.at:%Y-%m-%d %H:%M:%S}"
    if isinstance(one, Entry):
        return at, one.event, one.node, one.error or cell(one.added)
    again = "" if one.next_at is None else f"; again at {one.next_at:%H:%M:%S}"
    return at, f"{one.event} (attempt {one.attempt})", one.node, f"{one.recipient}: {one.error or ''}{again}"


def _delivery_cells(row: Ordered) -> tuple[object, ...]:
    when = row.finished_at or row.run_at
    return row.id, row.node, row.channel, row.recipient, row.life, tries(row), f"{when:%Y-%m-%d %H:%M:%S}", row.error


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
    follow(caller, run_id, PollLimits(poll, timeout))
