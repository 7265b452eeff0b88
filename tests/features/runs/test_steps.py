"""Properties of what people see of a run: its steps as its log goes on, and as many of them as fit."""

from datetime import UTC, datetime

import pytest
from msgspec import structs

from dispatcher.features.deliveries.rules import run_sentence
from dispatcher.features.runs.models import RUNS, Entry, Run, Visit
from dispatcher.features.runs.steps import Row, Steps, ending, window
from dispatcher.features.workflows.store import steps
from dispatcher.plans.plan import Delay, Edge, Plan, Send

PLAN = Plan(
    name="order",
    entry="mail",
    nodes={
        "mail": Send(step=1, channel="email", to=("a@b.c",), parts={"text": "Hi"}),
        "rest": Delay(step=2, seconds=60.0),
        "text": Send(step=3, channel="sms", to=("+491",), parts={"body": "Hi"}),
    },
    edges={"mail": (Edge("rest"),), "rest": (Edge("text"),)},
)
STEPS = steps(PLAN)
AT = datetime(2030, 1, 1, tzinfo=UTC)
COUNTS = {"all": 3, "queued": 2, "held": 1, "failed": 0, "skipped": 0, "attempts": 2}


def run(**changes: object) -> Run:
    found: Run = RUNS.runs[0]
    return structs.replace(found, **{"execution_id": 7, "status": "running"} | changes)


def entries(*events: str) -> list[Entry]:
    """The log, each line as `event node`."""
    found = []
    for number, line in enumerate(events):
        event, _, node = line.partition(" ")
        found.append(Entry(number=number, at=AT, event=event, node=node or None))
    return found


def states(steps: Steps, of: Run, **cursor: Visit) -> dict[str, str]:
    return {row.node: row.state for row in steps.rows(of, cursor, {})}


def test_a_step_is_ahead_then_here_then_done() -> None:
    watched = Steps(STEPS)
    assert set(states(watched, run()).values()) == {""}
    watched.read(entries("started mail"))
    assert states(watched, run(), mail=Visit("sending", 0.0)) == {"mail": "runs", "rest": "", "text": ""}
    watched.read(entries("started mail", "succeeded mail", "started rest", "skipped text"))
    assert states(watched, run(), rest=Visit("delaying", 0.0, 60.0)) == {
        "mail": "done",
        "rest": "waits",
        "text": "skipped",
    }
    assert watched.next == 4


def test_the_current_step_of_an_ended_run_has_failed_or_stopped() -> None:
    watched = Steps(STEPS)
    failed = run(status="failed", finished_at=AT, error="no", error_step="mail")
    both = {"mail": Visit("sending", 0.0), "text": Visit("sending", 0.0)}
    assert states(watched, failed, **both) == {"mail": "failed", "rest": "", "text": "stopped"}
    assert next(row.note for row in watched.rows(failed, both, {}) if row.node == "mail") == "no"


def test_a_replay_takes_back_what_had_failed() -> None:
    watched = Steps(STEPS)
    watched.read(entries("started mail", "failed mail"))
    assert states(watched, run())["mail"] == "failed"
    watched.read([Entry(number=2, at=AT, event="replayed")])
    assert states(watched, run())["mail"] == ""


@pytest.mark.parametrize(
    ("visit", "counts", "note"),
    [
        (Visit("sending", 0.0), COUNTS, "1 of 3 ended, attempt 2, 1 held"),
        (Visit("sending", 0.0), COUNTS | {"all": 1, "held": 0, "attempts": 1}, ""),
        (Visit("waiting", 0.0, 0.0), COUNTS, "until 1970-01-01 00:00:00 UTC"),
        (Visit("waiting", 0.0), COUNTS, ""),
    ],
)
def test_a_step_shows_its_progress(visit: Visit, counts: dict[str, int], note: str) -> None:
    row = Steps(STEPS).rows(run(), {"mail": visit}, {"mail": counts})[0]
    assert (row.is_here, row.note) == (True, note)


@pytest.mark.parametrize("here", [0, 1, 7, 50, 98, 99])
def test_the_first_step_that_the_run_is_at_is_among_those_shown(here: int) -> None:
    rows = [Row(n, str(n), "", "", is_here=n >= here) for n in range(100)]
    shown = window(rows, 10)
    assert len(shown) == 10
    assert rows[here] in shown


def test_all_steps_are_shown_where_they_fit_and_the_last_ones_at_the_end() -> None:
    rows = [Row(n, str(n), "", "done") for n in range(10)]
    assert window(rows, 10) == rows
    assert window(rows, 3) == rows[-3:]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"status": "completed"}, "run 7 is completed"),
        ({"status": "failed", "error": "timeout", "error_step": "mail"}, "run 7 has failed at mail: timeout"),
        ({"status": "failed", "error": "poison"}, "run 7 has failed: poison"),
        ({"status": "cancelled", "note": "cancelled by ann"}, "run 7 is cancelled: cancelled by ann"),
    ],
)
def test_an_ending_is_a_sentence(changes: dict[str, object], words: str) -> None:
    assert ending(run(**changes)) == words


@pytest.mark.parametrize(
    ("verb", "answer", "done", "words"),
    [
        ("pause", "done", True, "is paused"),
        ("pause", "same", False, "is paused already"),
        ("resume", "same", False, "is not paused"),
        ("cancel", "cancelled", True, "sends nothing more"),
        ("cancel", "completed", False, "is completed: too late"),
        ("replay", "waiting", False, "is waiting: only a failed one"),
        ("signal", "unknown", False, "there is no run 7"),
    ],
)
def test_every_answer_of_the_database_has_words(verb: str, answer: str, done: bool, words: str) -> None:
    was_done, said = run_sentence(verb, 7, answer)
    assert (was_done, words in said) == (done, True)
