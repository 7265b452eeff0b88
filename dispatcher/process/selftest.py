"""The `selftest` command: it kills replicas and cuts their connections while they send, and checks every promise."""

import asyncio
import signal
from collections.abc import Callable
from typing import Annotated

import typer

from dispatcher.base.values.counts import counted
from dispatcher.cli.failures import FAILED
from dispatcher.cli.session import Session, hush
from dispatcher.cli.terminal.console import Output
from dispatcher.cli.terminal.progress import progress_bar
from dispatcher.db import embedded, pooler
from dispatcher.selftest.audit import Violation
from dispatcher.selftest.director import Progress as Done
from dispatcher.selftest.plan import Plan
from dispatcher.selftest.trial import Report, trial

# An embedded server has 100 connections, and each replica may open eleven.
REPLICAS_MAX = 7
IDS_SHOWN_MAX = 5
MESSAGES = 10_000
RECIPIENTS = 100_000
MESSAGES_HELP = f"How many are sent: {MESSAGES:,}, with --campaign {RECIPIENTS:,}."
CUTS_HELP = "How often lines to Postgres are cut; -1: as often as killed."
TALLIED = ["messages", "sent", "accepted", "asked_again", "duplicates", "lost", "failed", "held", "held_accepted"]


def selftest(  # noqa: PLR0913 - each is an option of the command
    session: Session,
    *,
    kill: Annotated[int, typer.Option(min=0, max=10_000, help="How often a replica is killed or stopped.")] = 20,
    messages: Annotated[int | None, typer.Option(min=2, max=10_000_000, help=MESSAGES_HELP)] = None,
    replicas: Annotated[int, typer.Option(min=1, max=REPLICAS_MAX, help="Processes at a time.")] = 2,
    seed: Annotated[int, typer.Option(min=0, help="What all disturbances are drawn from.")] = 1,
    lease: Annotated[float, typer.Option(min=0.5, max=60, help="Seconds until others take over.")] = 1.0,
    cuts: Annotated[int, typer.Option(min=-1, max=10_000, help=CUTS_HELP)] = -1,
    campaign: Annotated[bool, typer.Option("--campaign", help="Send them by campaigns, and audit the runs.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the database, the logs and the ledgers.")] = False,
) -> None:
    """Kill replicas and cut their connections while they send, and check that nothing is lost and nothing sent twice.

    It uses the configured server with a database of its own, which is dropped at the end, and providers of its own on
    this machine: nothing leaves it. The exit code is 0 when every promise was kept.
    """
    session.require_local()
    hush()
    many = messages or (RECIPIENTS if campaign else MESSAGES)
    plan = Plan(kill, many, replicas, seed, lease, kill if cuts < 0 else cuts, campaign)
    url, server = embedded.start_unless_configured(session.config.database)
    # It cuts connections itself, and makes a database that a pooler need not have.
    past_pooler = pooler.url_of(session.config.database, url)
    try:
        with progress_bar(session.output, "starting", plan.messages) as at:

            def show(done: Done) -> None:
                counts = (done.written, "message"), (done.kills, "kill"), (done.cuts, "cut")
                at(done.written, f"{done.phase}: {', '.join(counted(*one) for one in counts)}")

            report = session.launch(_interruptible(plan, past_pooler, show, keep))
    finally:
        if server is not None:
            server.cleanup()
    if session.output.as_json:
        session.output.record(report)
    else:
        _tell(session.output, report)
    if not report.passed:
        raise typer.Exit(FAILED)


async def _interruptible(plan: Plan, url: str, show: Callable[[Done], None], keep: bool) -> Report:
    """End by SIGTERM, as a CI sends it, as by Ctrl-C: with everything removed."""
    me = asyncio.current_task()
    if me is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, me.cancel)
    try:
        return await trial(plan, url, show, keep)
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def _tell(output: Output, report: Report) -> None:
    done = report.disturbed
    rows = ((name, *(getattr(tally, field) for field in TALLIED)) for name, tally in report.providers.items())
    output.table(("", *(field.replace("_", " ") for field in TALLIED[:-1]), "of them accepted"), rows)
    output.text()
    for run in report.runs:
        ended = f"{run.status}, {run.sent:,} of {run.intended:,} sent, {run.failed:,} failed"
        open_by = f"; {run.held} held keep it open: {_ids(run.held_ids)}" if run.held else ""
        output.text(f"run          {run.channel}: {ended}{open_by}")
    output.text(f"kills        {_counts(done.kills)}")
    output.text(f"fault points {_counts(done.points)}")
    output.text(f"cuts         {_counts(done.cuts)}")
    output.text(
        f"in flight    {done.in_flight_average:g} calls at a kill on average, {done.in_flight_max} at most in a class"
    )
    held = max((tally.held_max_per_kill for tally in report.providers.values()), default=0)
    output.text(f"held         {held} at most by one kill")
    recovery, leave = done.recovery_seconds, done.exit_seconds
    output.text(f"recovery     {recovery.p50:g} s (p50), {recovery.max:g} s at most, {recovery.missing} did not come")
    for slow in done.slowest:
        output.text(f"             {slow}")
    output.text(f"SIGTERM      {leave.p50:g} s to the exit (p50), {leave.max:g} s at most")
    output.text(f"time         {report.seconds:g} s, seed {report.plan.seed}")
    for what, where in report.kept.items():
        output.text(f"{what:<12} {where}")
    output.text()
    for violation in report.violations:
        output.text(f"VIOLATED: {_words(violation)}")
    output.text("Every promise was kept." if report.passed else "Not every promise was kept.")


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "none"


def _words(violation: Violation) -> str:
    if not violation.ids:
        return violation.what
    return f"{violation.what}: {violation.count} of them, for example {_ids(violation.ids)}"


def _ids(ids: list[int]) -> str:
    return ", ".join(map(str, ids[:IDS_SHOWN_MAX]))
