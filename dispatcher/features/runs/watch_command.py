"""Watching a run: its steps on a terminal; the new lines of its log elsewhere and as JSON."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from msgspec import Struct, structs
from rich.console import Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.failures import FAILED
from dispatcher.cli.terminal.console import Output, plain
from dispatcher.cli.terminal.launcher import launcher
from dispatcher.features.runs import endpoints
from dispatcher.features.runs.models import Progress
from dispatcher.features.runs.steps import FAILED as FAILED_STEP
from dispatcher.features.runs.steps import Row, Steps, ending, window

POLL_SECONDS = 2.0
# Most runs end within a second: the first polls come sooner, each after twice the wait.
POLL_SECONDS_FIRST = 0.05
SECONDS_MAX = 86_400.0
SIGNS = {"done": "✓", "failed": "✗", "skipped": "-", "stopped": "-", "": " "}
STYLES = {"done": "green", "failed": "red", "skipped": "dim", "stopped": "dim", "": "dim"}
# Lines of the view beside the steps.
LINES_AROUND = 4
# Fields of a run with another name in the output of commands.
_NAMES = {"execution_id": "id", "workflow_name": "workflow", "retry_count": "retries", "error_step": "error_node"}

Poll = Annotated[float, typer.Option(min=0.05, max=SECONDS_MAX, help="Seconds between two looks at it, at the most.")]
Tell = Callable[[Progress], None]


class PollLimits(Struct, frozen=True):
    """The limits of watching: the longest wait between two polls, and the time to give up; None is never."""

    poll_seconds: float
    seconds_max: float | None


def follow(caller: Caller, run_id: int, limits: PollLimits) -> None:
    """Show a run until it ends or the time is over; exit with FAILED unless it is completed."""
    output = caller.output
    steps = Steps(caller.ask(endpoints.get_run, run_id).steps)
    with _telling(output, steps) as tell:
        run = _until_its_end(caller, run_id, steps, tell, limits).run
    if run.finished_at is None:
        words = f"run {run_id} has not ended within {limits.seconds_max:g} s: it is {run.status}"
        message = f"{words}; `{launcher()} runs watch {run_id}` goes on watching"
        output.note(f"error: {message}", {"error": "TimedOut", "message": message, "execution_id": run_id})
        raise typer.Exit(FAILED)
    if output.as_json:
        output.record(record(run) | {"ended": True})
    else:
        output.text(plain(ending(run)))
    if run.status != "completed":
        raise typer.Exit(FAILED)


def record(run: Struct) -> dict[str, Any]:
    """Return a run as commands show it as JSON, with its id also as `execution_id`."""
    facts = {_NAMES.get(name, name): value for name, value in structs.asdict(run).items()}
    return {"execution_id": facts["id"], **facts}


def _until_its_end(caller: Caller, run_id: int, steps: Steps, tell: Tell, limits: PollLimits) -> Progress:
    deadline = None if limits.seconds_max is None else time.monotonic() + limits.seconds_max
    wait = min(POLL_SECONDS_FIRST, limits.poll_seconds)
    while True:
        progress: Progress = caller.ask(endpoints.get_run_progress, run_id, first=steps.next)
        steps.read(progress.entries)
        tell(progress)
        if progress.more:
            continue
        left = None if deadline is None else deadline - time.monotonic()
        if progress.run.finished_at is not None or (left is not None and left <= 0):
            return progress
        time.sleep(wait if left is None else min(wait, left))
        wait = min(wait * 2, limits.poll_seconds)


@contextmanager
def _telling(output: Output, steps: Steps) -> Iterator[Tell]:
    if output.as_json or not output.stderr.is_terminal:
        yield lambda progress: _say(output, progress)
        return
    with Live(console=output.stderr, auto_refresh=True, refresh_per_second=8) as live:
        yield lambda progress: live.update(_view(output, steps, progress))


def _say(output: Output, progress: Progress) -> None:
    for entry in progress.entries:
        if output.as_json:
            facts = {name: value for name, value in structs.asdict(entry).items() if value is not None}
            output.record({"execution_id": progress.run.execution_id, **facts})
        else:
            error = f": {entry.error}" if entry.error else ""
            output.text(plain(f"{entry.at:%H:%M:%S.%f} {entry.event} {entry.node or 'the run'}{error}"))
    output.flush()


def _view(output: Output, steps: Steps, progress: Progress) -> Group:
    """Return the view of a terminal: a line about the run, and a row for each step."""
    run = progress.run
    rows = steps.rows(run, progress.cursor, progress.counts)
    shown = window(rows, max(1, output.stderr.height - LINES_AROUND))
    grid = Table.grid(padding=(0, 2, 0, 0))
    for row in shown:
        style = "bold" if row.is_here else STYLES.get(row.state, "")
        grid.add_row(_sign(row), *(Text(plain(cell), style) for cell in (row.node, row.what, row.state, row.note)))
    done = sum(row.state == "done" for row in rows)
    about = f"run {run.execution_id} of {run.workflow_name}, version {run.version}"
    return Group(Text(plain(f"{about}: {run.status}, {done} of {len(rows)} done")), grid)


def _sign(row: Row) -> Spinner | Text:
    if row.is_here:
        return Spinner("dots")
    return Text(SIGNS.get(row.state, " "), "red" if row.state == FAILED_STEP else STYLES.get(row.state, ""))
