"""Watching a campaign run: a progress bar on a terminal; a line for each change elsewhere and as JSON."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from dispatcher.base.values.durations import format_duration
from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.failures import FAILED
from dispatcher.cli.terminal.console import Output, plain
from dispatcher.cli.terminal.launcher import launcher
from dispatcher.cli.terminal.progress import progress_bar
from dispatcher.features.campaigns.runs import endpoints
from dispatcher.features.campaigns.runs.models import CampaignRun
from dispatcher.features.campaigns.runs.models import WholeCampaignRun as Run

POLL_SECONDS = 1.0
SECONDS_MAX = 86_400.0
Poll = Annotated[float, typer.Option(min=0.05, max=SECONDS_MAX, help="Seconds between two looks at it.")]
Tell = Callable[[Run], None]


def follow(caller: Caller, run_id: int, poll_seconds: float, seconds_max: float | None) -> None:
    """Show a run until it ends or the time is over; exit with FAILED unless it is completed."""
    output = caller.output
    run: Run = caller.ask(endpoints.get_campaign_run, run_id)
    deadline = None if seconds_max is None else time.monotonic() + seconds_max
    with _telling(output, run) as tell:
        while True:
            tell(run)
            left = None if deadline is None else deadline - time.monotonic()
            if run.finished_at is not None or (left is not None and left <= 0):
                break
            time.sleep(poll_seconds if left is None else min(poll_seconds, left))
            run = caller.ask(endpoints.get_campaign_run, run_id)
    if run.finished_at is None:
        words = f"campaign run {run_id} has not ended within {seconds_max:g} s: it is {run.status}"
        message = f"{words}; `{launcher()} campaigns watch {run_id}` goes on watching"
        output.note(f"error: {message}", {"error": "TimedOut", "message": message, "run_id": run_id})
        raise typer.Exit(FAILED)
    if not output.as_json:
        output.text(plain(f"campaign run {run_id} of {run.campaign}: {status(run)}; {counts(run)}"))
        show_reasons(output, run)
    if run.status != "completed":
        raise typer.Exit(FAILED)


def status(run: CampaignRun) -> str:
    """Return the status of a run with its flags."""
    flag = "cancelled" if run.cancelled else "paused" if run.paused else ""
    return f"{run.status} ({flag})" if flag else run.status


def counts(run: Run) -> str:
    """Return the counters of a run that are not 0, and what it has been of late."""
    named = (
        ("failed", run.failed),
        ("skipped", run.skipped),
        ("cancelled", run.cancelled_count),
        ("expired", run.expired),
        ("held", run.held),
    )
    words = [f"{run.sent:,} of {run.intended:,} sent", *(f"{count:,} {name}" for name, count in named if count)]
    if run.finished_at is None:
        words.append(f"{run.pace:,.0f} a second")
        if run.seconds_left is not None:
            words.append(f"{format_duration(round(run.seconds_left))} left")
    return ", ".join(words)


def show_reasons(output: Output, run: Run) -> None:
    """Show why deliveries of a run were not sent."""
    for one in run.reasons:
        output.text(plain(f"  {one.count:,} {one.outcome}: {one.reason}"))


@contextmanager
def _telling(output: Output, first: Run) -> Iterator[Tell]:
    if not output.as_json and output.stderr.is_terminal:
        with progress_bar(output, first.campaign, first.intended) as at:
            yield lambda run: at(run.intended - run.waiting - run.held, f"{run.campaign}: {status(run)}, {counts(run)}")
        return
    last = ""

    def say(run: Run) -> None:
        nonlocal last
        now = f"{status(run)}: {counts(run)}"
        if output.as_json:
            output.record(run)
        elif now != last:
            output.text(plain(now))
        last = now
        output.flush()

    yield say
