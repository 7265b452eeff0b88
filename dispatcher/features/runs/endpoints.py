"""Runs over HTTP: starting them, looking at them and at their logs, and what may be done to one."""

from collections.abc import Awaitable, Callable
from functools import partial

from dispatcher.base.errors import Fault, TriggerRefused
from dispatcher.features.deliveries.rules import run_sentence
from dispatcher.features.runs import models, store
from dispatcher.features.runs.models import NewTrigger, Triggered
from dispatcher.features.runs.store import Trigger
from dispatcher.http.cursors import cursor, read_id, read_numbers
from dispatcher.http.endpoints import Call, Done, endpoint
from dispatcher.http.listing import by_id, cut, page
from dispatcher.http.models import ACTED, Acted, Why
from dispatcher.http.problems import CONFLICT, NOT_FOUND, OVERLOADED, Problem, faulty, not_found
from dispatcher.http.roles import Right

NOUN = "runs"
LOG_NOUN = "log"
ORDERED_NOUN = "run_deliveries"
# Of its deliveries, in the answer about a run.
DELIVERIES_MAX = 100
ATTEMPTS_MAX = 500

_ONE = "/runs/{run_id}"
_WHY = {"reason": "the order is in doubt"}
_ACTING = (NOT_FOUND, CONFLICT)


@endpoint(
    "POST",
    "/workflows/{name}/triggers",
    Right.TRIGGERS,
    given=NewTrigger,
    example={"input": {"order": {"id": 17}}, "idempotency_key": "order-17"},
    answered=models.TRIGGERED,
    status=201,
    problems=(NOT_FOUND, CONFLICT, OVERLOADED),
    gathers=True,
    makes=("run_id", "execution_id"),
)
async def trigger_workflow(call: Call) -> Done:
    """Start a run of a workflow.

    A key starts one run: who triggers with it again gets the first one, with `duplicate: true`.
    """
    named = named_key(call.given)
    # A trigger that is sent again with the same header has the same run, also after its answer was forgotten.
    key = call.idempotency_key if named is None else named
    # With an Idempotency-Key it is one transaction with its answer, and nobody else's.
    gathered = None if call.idempotency_key is not None else call.served.trigger
    try:
        found = await started(call, call.path["name"], call.raw("input"), key, gathered)
    except TriggerRefused as refused:
        raise refusal(refused) from refused
    return Done(found, 200 if found.duplicate else 201)


def named_key(given: NewTrigger) -> str | None:
    """Return the key of a run, by whichever of its names."""
    named = [one for one in (given.idempotency_key, given.correlation_id) if one is not None]
    if len(set(named)) > 1:
        raise faulty([Fault("$.correlation_id", "is another name for idempotency_key: keep one of them")])
    return named[0] if named else None


async def started(
    call: Call,
    workflow: str,
    given: str,
    key: str | None,
    gathered: Callable[[Trigger], Awaitable[Triggered]] | None = None,
) -> Triggered:
    """Return the run of a trigger, or the one that its key has started already. Raises TriggerRefused."""
    await call.served.shed(None)
    start = gathered or partial(store.trigger, call.database)
    return await start(Trigger(workflow=workflow, input=given, key=key, workspace=call.workspace, by=call.actor))


def refusal(refused: TriggerRefused) -> Problem:
    """Return what a trigger is answered that is refused."""
    match refused.why:
        case "unknown":
            return Problem(NOT_FOUND, refused.message, refused.faults)
        case "not now":
            return Problem(CONFLICT, refused.message, refused.faults)
        case "faulty":
            return faulty(refused.faults, refused.message)


@endpoint("GET", "/runs", Right.LOGS, query=models.RunQuery, answered=models.RUNS)
async def list_runs(call: Call) -> Done:
    """List runs, the newest first."""
    asked: models.RunQuery = call.query
    start = min(read_id(NOUN, asked.cursor), asked.before)
    part = call.part.tenant_id, call.part.workspace_id
    # What is gone before it is read makes the page shorter, and not the list.
    found = await store.newest(call.database, *part, asked, start, asked.limit + 1)
    some, more = cut(found, asked.limit, lambda last: cursor(NOUN, last))
    return Done(models.Runs(await store.rows(call.database, some), more))


@endpoint("GET", _ONE, Right.LOGS, answered=models.WHOLE_RUN, problems=(NOT_FOUND,))
async def get_run(call: Call) -> Done:
    """Show a run: where it stands, its input, its context and its deliveries."""
    run_id = await _own(call)
    found = await store.show(call.database, run_id, ATTEMPTS_MAX, DELIVERIES_MAX)
    if found is None:
        raise not_found(f"run {run_id}")
    return Done(found)


async def _own(call: Call) -> int:
    """Return the id in the path, of a run that the caller may know of."""
    run_id = call.number("run_id", "run")
    if not call.owns(await store.owner(call.database, run_id)):
        raise not_found(f"run {run_id}")
    return run_id


@endpoint("GET", f"{_ONE}/log", Right.LOGS, query=models.LogQuery, answered=models.LOG, problems=(NOT_FOUND,))
async def get_run_log(call: Call) -> Done:
    """Show what happened to a run."""
    run_id = await _own(call)
    asked: models.LogQuery = call.query
    first = 0 if asked.cursor is None else read_numbers(LOG_NOUN, asked.cursor, 1)[0]
    found = await store.log(call.database, run_id, first, asked.limit + 1)
    # The next page begins at a number, and not behind one.
    entries, more = cut(found, asked.limit, lambda last: cursor(LOG_NOUN, last.number + 1))
    return Done(models.Log(list(entries), more))


@endpoint(
    "GET",
    f"{_ONE}/deliveries",
    Right.LOGS,
    query=models.OrderedQuery,
    answered=models.ORDERED_DELIVERIES,
    problems=(NOT_FOUND,),
)
async def list_run_deliveries(call: Call) -> Done:
    """List the deliveries that a run has ordered, the first ones first."""
    run_id = await _own(call)
    asked: models.OrderedQuery = call.query
    first = 0 if asked.cursor is None else read_numbers(ORDERED_NOUN, asked.cursor, 1)[0]
    rows = await store.ordered(call.database, run_id, first, asked.limit + 1)
    return Done(models.OrderedDeliveries(*page(rows, asked.limit, models.Ordered, by_id(ORDERED_NOUN))))


@endpoint(
    "GET",
    f"{_ONE}/progress",
    Right.LOGS,
    query=models.ProgressQuery,
    answered=models.PROGRESS,
    problems=(NOT_FOUND,),
)
async def get_run_progress(call: Call) -> Done:
    """Show where a run stands, and what has happened to it from an entry of its log on."""
    run_id = await _own(call)
    asked: models.ProgressQuery = call.query
    found = await store.progress(call.database, run_id, asked.first, asked.limit)
    if found is None:
        raise not_found(f"run {run_id}")
    return Done(found)


@endpoint("POST", f"{_ONE}/pause", Right.TRIGGERS, given=Why, example=_WHY, answered=ACTED, problems=_ACTING)
async def pause_run(call: Call) -> Done:
    """Let a run go no further; what it has queued waits."""
    return await _act(call, "pause")


@endpoint("POST", f"{_ONE}/resume", Right.TRIGGERS, given=Why, example=_WHY, answered=ACTED, problems=_ACTING)
async def resume_run(call: Call) -> Done:
    """Let a paused run go on."""
    return await _act(call, "resume")


@endpoint("POST", f"{_ONE}/cancel", Right.TRIGGERS, given=Why, example=_WHY, answered=ACTED, problems=_ACTING)
async def cancel_run(call: Call) -> Done:
    """Cancel a run: it sends nothing more."""
    return await _act(call, "cancel")


@endpoint("POST", f"{_ONE}/replay", Right.TRIGGERS, given=Why, example=_WHY, answered=ACTED, problems=_ACTING)
async def replay_run(call: Call) -> Done:
    """Let a failed run go on from where it failed; what was sent is not sent again."""
    return await _act(call, "replay")


async def _act(call: Call, verb: store.Verb) -> Done:
    run_id = await _own(call)
    return _done(verb, run_id, await store.act(call.database, verb, run_id, call.given.reason, call.actor))


@endpoint(
    "POST",
    f"{_ONE}/signal",
    Right.TRIGGERS,
    given=models.Signal,
    example={"event": "paid", "data": {"amount": 120}},
    answered=ACTED,
    problems=_ACTING,
)
async def signal_run(call: Call) -> Done:
    """Send a run an event."""
    run_id = await _own(call)
    try:
        answer = await store.signal(call.database, run_id, call.given.event, call.raw("data"), call.actor)
    except TriggerRefused as refused:
        raise refusal(refused) from refused
    return _done("signal", run_id, answer)


def _done(verb: str, run_id: int, answer: str) -> Done:
    done, words = run_sentence(verb, run_id, answer)
    if not done:
        raise Problem(CONFLICT, words, answer=answer)
    return Done(Acted(run_id, answer, words))


ENDPOINTS = (
    trigger_workflow,
    list_runs,
    get_run,
    get_run_log,
    list_run_deliveries,
    get_run_progress,
    pause_run,
    resume_run,
    cancel_run,
    replay_run,
    signal_run,
)
