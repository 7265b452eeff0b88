"""Runs: the list with its filters, one run with its graph, log, context and deliveries, and what can be done to it."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import get_args

from dispatcher.console.forms import read_times
from dispatcher.console.page import Answer, Field, Form, Page, Visit, form, page
from dispatcher.console.pages.messages.delivery_trace import Step, timed
from dispatcher.console.pages.sources.run_graph import graph, state
from dispatcher.console.rendering import duration, pretty
from dispatcher.features.runs.endpoints import (
    cancel_run,
    get_run,
    get_run_log,
    list_run_deliveries,
    list_runs,
    pause_run,
    replay_run,
    resume_run,
    signal_run,
)
from dispatcher.features.runs.models import Entry, Run, RunAttempt, RunStatus, WholeRun
from dispatcher.features.runs.steps import Row, Steps
from dispatcher.http.endpoints import Endpoint
from dispatcher.http.roles import Right

ROWS = 50
DELIVERIES_SHOWN = 50
# Steps of the trace and characters of a value: a page has 150 KB at most.
TRACE_SHOWN = 60
VALUE_SHOWN = 200
# Nodes that the sentence about a run names.
SAID = 3
# A run visits each of its nodes once: a longer log is rare, and its beginning colours the graph well enough.
_LOG_PAGE, _LOG_PAGES_MAX = 500, 4
# How an event of the log looks.
_EVENTS = {
    "started": "sending",
    "succeeded": "sent",
    "failed": "failed",
    "skipped": "skipped",
    "paused": "parked",
    "cancelled": "skipped",
}
_TITLES = {
    "pending": "It waits to be taken up",
    "running": "It runs",
    "waiting": "It waits",
    "paused": "It is paused",
    "completed": "It is completed",
    "failed": "It failed",
    "cancelled": "It was cancelled",
}


@page("/runs", Right.LOGS)
async def runs(visit: Visit) -> Answer:
    """List runs, the newest first."""
    found = await visit.ask(list_runs, query={"limit": ROWS, **visit.query, **read_times(visit.query, "since")})
    return visit.show("sources/runs.html", found=found, statuses=get_args(RunStatus))


@page("/runs/{run_id}", Right.LOGS)
async def run(visit: Visit) -> Answer:
    """Show one run."""
    found: WholeRun = await visit.ask(get_run)
    entries, is_whole = await _log(visit)
    rows = _rows(found, entries)
    states = {row.node: (state(row, found.status, _held(found, row.node)), row) for row in rows}
    steps = trace(entries, found.attempts)
    deliveries = await visit.ask(
        list_run_deliveries, query={"limit": DELIVERIES_SHOWN, "cursor": visit.query.get("cursor")}
    )
    return visit.show(
        "sources/run.html",
        one=found,
        title=sentence(found, [row for row in rows if row.is_here]),
        drawn=graph(found.steps, visit.query.get("at", ""), states),
        steps=steps[-TRACE_SHOWN:],
        earlier=max(len(steps) - TRACE_SHOWN, 0),
        is_whole=is_whole,
        deliveries=deliveries,
        is_open=found.finished_at is None,
        counts=_counts(states),
        context=pretty(found.context),
        input=pretty(found.input),
    )


async def _log(visit: Visit) -> tuple[list[Entry], bool]:
    entries: list[Entry] = []
    cursor: str | None = None
    for _ in range(_LOG_PAGES_MAX):
        found = await visit.ask(get_run_log, query={"limit": _LOG_PAGE, "cursor": cursor})
        entries += found.entries
        cursor = found.next_cursor
        if cursor is None:
            return entries, True
    return entries, False


def _rows(found: WholeRun, entries: Sequence[Entry]) -> list[Row]:
    steps = Steps(found.steps)
    steps.read(entries)
    return steps.rows(found, found.cursor, found.counts)


def _held(found: WholeRun, node: str) -> int:
    return found.counts.get(node, {}).get("held", 0)


def _counts(states: Mapping[str, tuple[str, Row]]) -> list[tuple[str, str, int]]:
    """Return how many nodes have come to what."""
    found: dict[tuple[str, str], int] = {}
    for css, row in states.values():
        named = css, row.state or "not reached"
        found[named] = found.get(named, 0) + 1
    return [(f"f s-{css}", words, count) for (css, words), count in found.items()]


def sentence(found: Run, here: Sequence[Row]) -> str:
    """Return in one sentence how a run stands."""
    title = _TITLES[found.status]
    if found.status == "failed":
        return f"{title} at {found.error_step}" if found.error_step else title
    if found.status == "completed" and found.finished_at is not None:
        return f"{title}, after {duration((found.finished_at - found.created_at).total_seconds())}"
    if found.finished_at is not None or not here:
        return title
    if found.status == "paused":
        return f"{title} at {', '.join(row.node for row in here[:SAID])}"
    said = [f"at {row.node} it {row.state}{f' {row.note}' if row.note else ''}" for row in here[:SAID]]
    words = "; ".join(said) + (f"; and it is at {len(here) - SAID} more" if len(here) > SAID else "")
    return words[:1].upper() + words[1:]


def trace(entries: Sequence[Entry], attempts: Sequence[RunAttempt]) -> list[Step]:
    """Return what happened to a run, in the order of time."""
    happened: list[Entry | RunAttempt] = sorted([*entries, *attempts], key=attrgetter("at"))
    # A node of the graph leads to its last entry.
    last = {one.step: one.number for one in entries if one.step is not None}
    return timed(
        [
            _attempt(one) if isinstance(one, RunAttempt) else _entry(one, -1 if one.step is None else last[one.step])
            for one in happened
        ]
    )


def _entry(one: Entry, last: int) -> Step:
    title = f"{one.node}: {one.event}" if one.node is not None else one.event.capitalize()
    added = bytes(one.added).decode() if one.added else ""
    css = _EVENTS.get(one.event, "note")
    return Step(one.at, css, title, _cut(one.error or added), id=f"step-{one.step}" if one.number == last else "")


def _attempt(one: RunAttempt) -> Step:
    until = f", again at {one.next_at:%H:%M:%S}" if one.next_at else ""
    css = "failed" if one.event == "failed" else "pending"
    title = f"{one.node}: attempt {one.attempt} of delivery {one.delivery_id}: {one.event}{until}"
    return Step(one.at, css, title, _cut(f"{one.recipient}: {one.error or ''}"))


def _cut(text: str) -> str:
    return text if len(text) <= VALUE_SHOWN else f"{text[:VALUE_SHOWN]}…"


_ACTIONS: Sequence[tuple[str, Endpoint, str, str, bool]] = (
    (
        "pause",
        pause_run,
        "It goes no further, and what it has queued waits. Its times pass meanwhile.",
        "Pause it",
        False,
    ),
    ("resume", resume_run, "It goes on from where it was paused.", "Resume it", False),
    ("cancel", cancel_run, "It sends nothing more. What is sent stays sent. This cannot be undone.", "Cancel it", True),
    ("replay", replay_run, "It goes on where it failed. What was sent is not sent again.", "Replay it", False),
)


def _acting(verb: str, asks: Endpoint, text: str, button: str, risk: bool) -> Page:
    @form(f"/runs/{{run_id}}/{verb}", asks)
    async def act(visit: Visit) -> Form:
        number = visit.path["run_id"]
        title = f"{verb.capitalize()} run {number}?"
        return Form(title=title, text=f"One run. {text}", button=button, risk=risk, back=f"/runs/{number}")

    return act


PAUSE, RESUME, CANCEL, REPLAY = (_acting(*one) for one in _ACTIONS)


@form("/runs/{run_id}/signal", signal_run)
async def signal(visit: Visit) -> Form:
    """Send a run an event."""
    number = visit.path["run_id"]
    return Form(
        title=f"Which event has come for run {number}?",
        text="One run. The event is kept until one of its nodes waits for it, and cannot be taken back.",
        fields=[
            Field("event", "Event", value=visit.query.get("event", ""), required=True),
            Field("data", "Data", "json", hint="A JSON object, which its node adds to the context. May be empty."),
        ],
        button="Send the event",
        reason=False,
        back=f"/runs/{number}",
    )
