"""Campaign runs: the list, one run with its progress, jobs, deliveries, log and books, and what can be done to it."""

import time
from typing import Any, get_args

from msgspec import Struct

from dispatcher.console.bulk import SECONDS_MAX
from dispatcher.console.page import Answer, Field, Form, Page, Visit, form, page
from dispatcher.console.rendering import count, duration, plural
from dispatcher.features.campaigns.runs.endpoints import (
    cancel_campaign_run,
    check_campaign_run,
    get_campaign_run,
    get_campaign_run_audit,
    list_campaign_run_jobs,
    list_campaign_runs,
    pause_campaign_run,
    replay_campaign_run,
    resume_campaign_run,
    set_campaign_run_rate,
    trace_campaign_run,
)
from dispatcher.features.campaigns.runs.models import (
    CampaignCheck,
    JobStatus,
    OutboxStatus,
    RunStatus,
    WholeCampaignRun,
)
from dispatcher.http.endpoints import Endpoint
from dispatcher.http.roles import Right

ROWS = 50
EVENTS = 30
REASONS_SHOWN_MAX = 30
_SECTION = "campaigns"
_ONE = "/campaign-runs/{campaign_run_id}"
# The sentences of the contract that a check is about.
SENTENCES = ("the run is terminal", "each item has one terminal delivery", "nobody was written to twice")


@page("/campaign-runs", Right.CAMPAIGNS, section=_SECTION)
async def campaign_runs(visit: Visit) -> Answer:
    """List runs, the newest first."""
    meant = {name: visit.query.get(name) for name in ("campaign", "status", "test", "cursor")}
    found = await visit.ask(list_campaign_runs, query={"limit": ROWS, **meant})
    return visit.show("sources/campaign_runs.html", found=found, statuses=get_args(RunStatus))


@page(_ONE, Right.CAMPAIGNS, section=_SECTION)
async def campaign_run(visit: Visit) -> Answer:
    """Show a run with its progress."""
    found: WholeCampaignRun = await visit.ask(get_campaign_run)
    log = await visit.ask(get_campaign_run_audit, query={"entity": "run", "limit": EVENTS})
    state, words = standing(found)
    return visit.show(
        "sources/campaign_run.html",
        run=found,
        state=state,
        words=words,
        log=log,
        reasons=found.reasons[:REASONS_SHOWN_MAX],
        is_open=found.finished_at is None and not found.cancelled,
    )


def standing(run: WholeCampaignRun) -> tuple[str, str]:
    """Return the state of a run, and what is so in one sentence."""
    if run.finished_at is not None:
        return _ended(run)
    if run.cancelled:
        return "skipped", f"It was cancelled: {plural(run.waiting, 'message')} that did not leave will be skipped."
    if run.paused:
        return "parked", f"It is paused: {plural(run.waiting, 'message')} will not be sent until it is resumed."
    if not run.waiting and run.held:
        return "held", f"It waits for {count(run.held)} that are held: nobody knows whether they left."
    if run.status == "queued":
        return "pending", "It has not begun."
    left = "" if run.seconds_left is None else f", about {duration(run.seconds_left)} left"
    return "sending", f"It is sending: {plural(run.waiting, 'message')} to come{left}."


def _ended(run: WholeCampaignRun) -> tuple[str, str]:
    took = f" in {duration((run.finished_at - run.created_at).total_seconds())}" if run.finished_at else ""
    if run.cancelled:
        return "skipped", f"It was cancelled: {count(run.sent)} of {plural(run.intended, 'message')} left before."
    if run.status == "completed":
        return "sent", f"It is done: {plural(run.sent, 'message')} sent{took}."
    lost = run.failed + run.expired + run.cancelled_count
    return "failed", f"It has ended{took}: {count(run.sent)} sent, and {plural(lost, 'message')} not."


@page(f"{_ONE}/jobs", Right.CAMPAIGNS, section=_SECTION)
async def jobs(visit: Visit) -> Answer:
    """List the jobs of a run."""
    found = await visit.ask(list_campaign_run_jobs, query=_meant(visit, "status"))
    return visit.show("sources/campaign_jobs.html", found=found, statuses=get_args(JobStatus))


@page(f"{_ONE}/deliveries", Right.CAMPAIGNS, section=_SECTION)
async def deliveries(visit: Visit) -> Answer:
    """List the deliveries of a run."""
    found = await visit.ask(trace_campaign_run, query=_meant(visit, "status"))
    return visit.show("sources/campaign_deliveries.html", found=found, statuses=get_args(OutboxStatus))


@page(f"{_ONE}/log", Right.CAMPAIGNS, section=_SECTION)
async def log(visit: Visit) -> Answer:
    """Show what happened to a run, its jobs and its deliveries."""
    found = await visit.ask(get_campaign_run_audit, query=_meant(visit, "entity"))
    return visit.show("sources/campaign_log.html", found=found)


def _meant(visit: Visit, name: str) -> dict[str, Any]:
    return {"limit": ROWS, "cursor": visit.query.get("cursor"), name: visit.query.get(name)}


def _about(visit: Visit) -> str:
    return f"/campaign-runs/{visit.path['campaign_run_id']}"


@form(f"{_ONE}/check", check_campaign_run, section=_SECTION)
async def check(visit: Visit) -> Form:
    """Check that each recipient is accounted for once, as far as there is time."""
    run: WholeCampaignRun = await visit.ask(get_campaign_run)
    cursor = visit.query.get("cursor", "")
    return Form(
        title=f"{'Check the rest' if cursor else 'Check the books'} of run {run.id} of {run.campaign}?",
        text=f"{plural(run.intended, 'message')}. It looks each up, and changes nothing.",
        fields=[Field("cursor", "", "hidden", value=cursor)],
        reason=False,
        button="Check it",
        back=_about(visit),
        act=_checked,
    )


async def _checked(visit: Visit, body: dict[str, Any]) -> Answer:
    end = time.monotonic() + SECONDS_MAX
    found: CampaignCheck = await visit.ask(check_campaign_run, query=body)
    checked, items, broken, breaches = found.jobs, found.items, list(found.broken), list(found.breaches)
    while found.next_cursor is not None and not breaches and time.monotonic() < end:
        found = await visit.ask(check_campaign_run, query={"cursor": found.next_cursor})
        checked, items = checked + found.jobs, items + found.items
        broken = [one + more for one, more in zip(broken, found.broken, strict=True)]
        breaches += found.breaches
    return visit.show(
        "sources/campaign_check.html",
        jobs=checked,
        items=items,
        broken=list(zip(SENTENCES, broken, strict=True)),
        breaches=breaches,
        cursor=found.next_cursor,
    )


def _acting(verb: str, asks: Endpoint, text: str, *, risk: bool = False) -> Page:
    @form(f"{_ONE}/{verb}", asks, section=_SECTION)
    async def act(visit: Visit) -> Form:
        run: WholeCampaignRun = await visit.ask(get_campaign_run)
        return Form(
            title=f"{verb.capitalize()} run {run.id} of {run.campaign}?",
            text=f"{plural(run.waiting, 'message')} of {count(run.intended)} to come. {text}",
            button=f"{verb.capitalize()} it",
            risk=risk,
            back=_about(visit),
        )

    return act


PAUSE = _acting(
    "pause",
    pause_campaign_run,
    "What is with its provider already ends. It can be resumed at any time, and nobody is written to twice.",
)
RESUME = _acting("resume", resume_campaign_run, "It goes on where it stood. Nobody is written to twice.")
CANCEL = _acting("cancel", cancel_campaign_run, "They are skipped. It cannot be resumed.", risk=True)


@form(f"{_ONE}/rate", set_campaign_run_rate, section=_SECTION)
async def rate(visit: Visit) -> Form:
    """Change the rate of a run."""
    run: WholeCampaignRun = await visit.ask(get_campaign_run)
    return Form(
        title=f"How fast may run {run.id} of {run.campaign} send?",
        text=f"{plural(run.waiting, 'message')} to come.",
        fields=[
            Field("rate", "Messages a second", "number", value=run.rate, hint="As fast as its channel, if it is empty.")
        ],
        reason=False,
        button="Change the rate",
        back=_about(visit),
    )


class Replayed(Struct, frozen=True):
    """How many are sent again."""

    message: str


@form(f"{_ONE}/replay", replay_campaign_run, section=_SECTION)
async def replay(visit: Visit) -> Form:
    """Send what has failed again."""
    run: WholeCampaignRun = await visit.ask(get_campaign_run)
    return Form(
        title=f"Send the failed messages of run {run.id} again?",
        text=f"{plural(run.failed, 'message')}. The run is open again until they have ended. What was sent is not "
        "sent again.",
        button="Send them again",
        back=_about(visit),
        act=_replay_all,
    )


async def _replay_all(visit: Visit, body: dict[str, Any]) -> Replayed:
    end = time.monotonic() + SECONDS_MAX
    done, cursor = 0, None
    while True:
        found = await visit.ask(replay_campaign_run, body={**body, "cursor": cursor})
        done, cursor = done + found.replayed, found.next_cursor
        if cursor is None or time.monotonic() > end:
            more = "" if cursor is None else " There are more: repeat it."
            return Replayed(f"{plural(done, 'message')} will be sent again.{more}")
