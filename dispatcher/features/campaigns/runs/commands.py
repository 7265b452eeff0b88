"""The `campaigns` commands about runs: list, show and watch them; pause, resume, cancel, replay and check them."""

from collections.abc import Mapping
from datetime import datetime
from itertools import islice
from typing import Annotated, Any, get_args

import typer

from dispatcher.base.values.counts import counted
from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.commands import command
from dispatcher.cli.failures import FAILED
from dispatcher.cli.options import Reason, one_of, require_reason, second
from dispatcher.cli.terminal.console import plain
from dispatcher.cli.terminal.output import show_facts, show_list, tell
from dispatcher.features.campaigns.runs import endpoints
from dispatcher.features.campaigns.runs.models import (
    CampaignBreach,
    CampaignCheck,
    CampaignEvent,
    CampaignJob,
    CampaignRun,
    JobStatus,
    OutboxStatus,
    ReplayedCampaignRun,
    RunStatus,
    TracedDelivery,
    WholeCampaignRun,
)
from dispatcher.features.campaigns.runs.watch_command import (
    POLL_SECONDS,
    SECONDS_MAX,
    Poll,
    follow,
    show_reasons,
    status,
)
from dispatcher.http.cursors import ID_MAX
from dispatcher.http.endpoints import Endpoint
from dispatcher.http.models import Acted
from dispatcher.http.problems import NOT_FOUND, Problem

SENTENCES = (
    "the run is terminal",
    "each intended item has a terminal row",
    "there are no duplicates: one row for each item, no address twice, no message id twice",
)
BREACHES_SHOWN = 100
ENTITIES = ("run", "job", "delivery")

RunId = Annotated[int, typer.Argument(min=1, max=ID_MAX, metavar="RUN")]
Word = str | None


def add_commands(app: typer.Typer) -> None:
    """Add the commands about runs to the group of campaigns."""
    command(app, "runs", limit=20, after=False, spans=True)(runs)
    command(app, "run", spans=True)(run)
    command(app, "watch", spans=True)(watch)
    for verb, endpoint, words in (
        ("pause", endpoints.pause_campaign_run, "Let nothing more of a run be sent; what is with its provider ends."),
        ("resume", endpoints.resume_campaign_run, "Let a paused run go on."),
        ("cancel", endpoints.cancel_campaign_run, "Cancel a run: what is not with its provider is skipped."),
    ):
        _add_action(app, verb, endpoint, words)
    command(app, "rate", acts=True, spans=True)(rate)
    command(app, "replay", acts=True, spans=True)(replay)
    command(app, "jobs", limit=100, after=False, spans=True)(jobs)
    command(app, "trace", limit=100, after=False, spans=True)(trace)
    command(app, "audit", limit=100, after=False, spans=True)(audit)
    command(app, "check", spans=True)(check)


def _add_action(app: typer.Typer, verb: str, endpoint: Endpoint, words: str) -> None:
    def act(caller: Caller, run_id: RunId, reason: Reason) -> None:
        require_reason(reason)
        _act(caller, endpoint, run_id, {"reason": reason})

    act.__doc__ = words
    command(app, verb, acts=True, spans=True)(act)


def _act(caller: Caller, endpoint: Endpoint, run_id: int, body: Mapping[str, object]) -> None:
    """Act on a run, and show the answer; exit with FAILED where it was not done."""
    try:
        acted: Acted = caller.ask(endpoint, run_id, body=body)
        done, answer, words = True, acted.answer, acted.message
    except Problem as problem:
        if problem.kind is not NOT_FOUND and not problem.answer:
            raise
        done, answer, words = False, problem.answer or "unknown", problem.detail
    tell(caller, {"run_id": run_id, "done": done, "answer": answer, "message": words}, words)
    if not done:
        raise typer.Exit(FAILED)


def runs(
    caller: Caller,
    *,
    campaign: Annotated[Word, typer.Option(help="Of one campaign.")] = None,
    status: Annotated[
        Word,
        typer.Option(help=f"One of {', '.join(get_args(RunStatus))}.", callback=one_of(get_args(RunStatus))),
    ] = None,
    test: Annotated[bool | None, typer.Option("--test/--no-test", help="Only tests, or all but tests.")] = None,
    before: Annotated[int, typer.Option(min=1, max=ID_MAX, metavar="ID", help="Only older ones.")] = ID_MAX,
) -> None:
    """List the newest runs of campaigns."""
    asked = {"campaign": campaign, "status": status, "test": test, "before": before}
    found = caller.listed(endpoints.list_campaign_runs, **asked)
    columns = (
        "id",
        "campaign",
        "status",
        "contacts",
        "sent",
        "failed",
        "skipped",
        "held",
        "waiting",
        "begins",
        "ended",
    )
    show_list(caller, found, columns, _run_cells, "There are no such runs.")
    if len(found) == caller.given.limit:
        caller.output.info(f"older ones: --before {found[-1].id}")


def _run_cells(row: CampaignRun) -> tuple[object, ...]:
    name = f"{row.campaign} (test)" if row.test else row.campaign
    begins = second(row.started_at or row.scheduled_for)
    figures = row.intended, row.sent, row.failed, row.skipped, row.held, row.waiting
    return row.id, name, status(row), *figures, begins, _second(row.finished_at)


def _second(at: datetime | None) -> str:
    return "" if at is None else second(at)


def run(caller: Caller, run_id: RunId) -> None:
    """Show a run: its progress, and why deliveries were not sent."""
    found: WholeCampaignRun = caller.ask(endpoints.get_campaign_run, run_id)
    words = {"status": status(found), "pace": f"{found.pace:,.1f}", "send_window": _window(found)}
    show_facts(caller, "campaign run", str(run_id), found, "id", "reasons", "paused", "cancelled", **words)
    if not caller.output.as_json:
        show_reasons(caller.output, found)


def _window(found: WholeCampaignRun) -> str:
    window = found.send_window
    if window is None:
        return ""
    days = "" if window.days is None else f" on {', '.join(window.days)}"
    return f"{window.opens} to {window.closes}{days}, {window.time_zone}"


def watch(
    caller: Caller,
    run_id: RunId,
    *,
    timeout: Annotated[
        float | None, typer.Option(min=0, max=SECONDS_MAX, help="For so many seconds at the most; to its end without.")
    ] = None,
    poll: Poll = POLL_SECONDS,
) -> None:
    """Show the progress of a run, and end as it does: the exit code is 0 where it is completed."""
    follow(caller, run_id, poll, timeout)


def rate(
    caller: Caller,
    run_id: RunId,
    rate: Annotated[
        float | None, typer.Argument(metavar="[RATE]", help="Messages a second; as its channel goes without it.")
    ] = None,
) -> None:
    """Change the rate of a run while it runs."""
    _act(caller, endpoints.set_campaign_run_rate, run_id, {"rate": rate})


def replay(caller: Caller, run_id: RunId, reason: Reason) -> None:
    """Send the failed deliveries of a run again. The run is open again until they have ended."""
    require_reason(reason)
    replayed, cursor = 0, None
    while True:
        body = {"reason": reason, "cursor": cursor}
        done: ReplayedCampaignRun = caller.ask(endpoints.replay_campaign_run, run_id, body=body)
        replayed, cursor = replayed + done.replayed, done.next_cursor
        if cursor is None:
            break
    tell(caller, {"run_id": run_id, "replayed": replayed}, f"campaign run {run_id}: {replayed:,} are sent again")


def jobs(
    caller: Caller,
    run_id: RunId,
    *,
    status: Annotated[
        Word,
        typer.Option(help=f"One of {', '.join(get_args(JobStatus))}.", callback=one_of(get_args(JobStatus))),
    ] = None,
) -> None:
    """List the jobs of a run."""
    found = caller.listed(endpoints.list_campaign_run_jobs, run_id, status=status)
    columns = (
        "id",
        "status",
        "attempts",
        "contacts",
        "sent",
        "failed",
        "skipped",
        "held",
        "expanded",
        "ended",
        "error",
    )
    show_list(caller, found, columns, _job_cells, "There are no such jobs.")


def _job_cells(row: CampaignJob) -> tuple[object, ...]:
    figures = row.attempts, row.intended, row.sent, row.failed, row.skipped + row.cancelled + row.expired, row.held
    return row.id, row.status, *figures, _second(row.expanded_at), _second(row.finished_at), row.error


def trace(
    caller: Caller,
    run_id: RunId,
    *,
    status: Annotated[
        Word,
        typer.Option(
            help=f"Of deliveries: one of {', '.join(get_args(OutboxStatus))}.", callback=one_of(get_args(OutboxStatus))
        ),
    ] = None,
) -> None:
    """List the deliveries of a run beside their jobs, with the provider's message ids."""
    found = caller.listed(endpoints.trace_campaign_run, run_id, status=status)
    columns = ("job", "its status", "id", "contact", "to", "life", "tries", "message id", "ended", "error")
    show_list(caller, found, columns, _trace_cells, "There are no such deliveries.")


def _trace_cells(row: TracedDelivery) -> tuple[object, ...]:
    about = row.outbox_id, row.contact_id or "", row.recipient, row.life, row.attempts, row.provider_message_id
    return row.job_id, row.job_status, *about, _second(row.finished_at), row.error


def audit(
    caller: Caller,
    run_id: RunId,
    *,
    entity: Annotated[
        Word,
        typer.Option(
            help="Only what happened to this: run, job or delivery.", callback=one_of(("run", "job", "delivery"))
        ),
    ] = None,
) -> None:
    """Show what happened to a run and its jobs, and then to one delivery after the other: by whom, when and why."""
    found = caller.listed(endpoints.get_campaign_run_audit, run_id, entity=entity)
    columns = ("at", "what", "event", "from", "to", "by", "why")
    show_list(caller, found, columns, _audit_cells, "There are no such entries.")


def _audit_cells(row: CampaignEvent) -> tuple[object, ...]:
    number = row.delivery_id or row.job_id if row.entity != "run" else None
    what = row.entity if number is None else f"{row.entity} {number}"
    return second(row.at), what, row.event, row.status_before, row.status, row.actor, row.reason


def check(caller: Caller, run_id: RunId) -> None:
    """Check the contract's three sentences for a run, and name what breaks them; exit with 1 when anything does."""
    broken, breaches = [0, 0, 0], list[CampaignBreach]()
    figures = {"jobs": 0, "items": 0}
    cursor: Any = None
    while True:
        part: CampaignCheck = caller.ask(endpoints.check_campaign_run, run_id, cursor=cursor)
        broken = [one + more for one, more in zip(broken, part.broken, strict=True)]
        breaches += islice(part.breaches, BREACHES_SHOWN - len(breaches))
        figures = {"jobs": figures["jobs"] + part.jobs, "items": figures["items"] + part.items}
        cursor = part.next_cursor
        if cursor is None:
            break
    facts = {"run_id": run_id, "status": part.status, **figures, "broken": broken, "breaches": breaches}
    tell(caller, facts, *_sentences(run_id, facts))
    if any(broken):
        raise typer.Exit(FAILED)


def _sentences(run_id: int, facts: Mapping[str, Any]) -> list[str]:
    size = f"{counted(facts['items'], 'item')} in {counted(facts['jobs'], 'job')}"
    lines = [f"campaign run {run_id} is {facts['status']}: {size}"]
    for number, (words, count) in enumerate(zip(SENTENCES, facts["broken"], strict=True), 1):
        lines.append(f"{'ok' if not count else 'BROKEN'}  {number}. {words}" + (f" ({count:,})" if count else ""))
        lines += (_breach(one) for one in facts["breaches"] if one.sentence == number)
    return lines


def _breach(one: CampaignBreach) -> str:
    named = (("job", one.job_id), ("item", one.item), ("delivery", one.delivery_id))
    where = ", ".join(f"{name} {value}" for name, value in named if value is not None)
    return plain(f"      {where}: {one.fault}" if where else f"      {one.fault}")
