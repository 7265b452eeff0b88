"""The endpoints of runs: trigger a workflow; list, show, pause, resume, cancel, replay and signal runs."""

from collections.abc import Awaitable, Callable
from functools import partial

from msgspec import structs

from dispatcher.base.errors import Fault, TriggerRefused
from dispatcher.features.deliveries.rules import run_sentence
from dispatcher.features.runs import models, store
from dispatcher.features.runs.models import NewTrigger, Triggered
from dispatcher.features.runs.store import Trigger
from dispatcher.http.cursors import cursor, read_id, read_numbers
from dispatcher.http.endpoints import Call, Done, Endpoint, endpoint
from dispatcher.http.listing import by_id, cut, page
from dispatcher.http.models import ACTED, Acted, Why
from dispatcher.http.problems import CONFLICT, NOT_FOUND, OVERLOADED, Problem, faulty, not_found, refusal
from dispatcher.http.roles import Right

NOUN = "runs"
LOG_NOUN = "log"
ORDERED_NOUN = "run_deliveries"
# The deliveries in the answer about a run.
DELIVERIES_MAX = 100
ATTEMPTS_MAX = 500

_PATH = "/runs/{run_id}"
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
    traced=True,
    makes=("run_id", "execution_id"),
)
async def trigger_workflow(call: Call) -> Done:
    """Start a run of a workflow.

    A key starts one run: a second trigger with it is answered with the first run and `duplicate: true`.
    """
    named = named_key(call.given)
    # The header gives the same run again, also after the stored answer has expired.
    key = call.idempotency_key if named is None else named
    # With an Idempotency-Key it is in the transaction that stores the answer, and in no batch.
    gathered = None if call.idempotency_key is not None else call.served.trigger
    try:
        found = await started(call, call.path["name"], call.raw("input"), key, gathered)
    except TriggerRefused as refused:
        raise refusal(refused) from refused
    return Done(found, 200 if found.duplicate else 201)


def named_key(given: NewTrigger) -> str | None:
    """Return the key of a run, from either of its two fields."""
    named = {given.idempotency_key, given.correlation_id} - {None}
    if len(named) > 1:
        raise faulty([Fault("$.correlation_id", "is another name for idempotency_key: keep one of them")])
    return next(iter(named), None)


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
    asked = Trigger(workflow=workflow, input=given, key=key, workspace=call.workspace, by=call.actor)
    return await start(asked if call.traceparent is None else structs.replace(asked, traceparent=call.traceparent))


@endpoint("GET", "/runs", Right.LOGS, query=models.RunQuery, answered=models.RUNS)
async def list_runs(call: Call) -> Done:
    """List runs, the newest first."""
    asked: models.RunQuery = call.query
    start = min(read_id(NOUN, asked.cursor), asked.before)
    part = call.part.tenant_id, call.part.workspace_id
    # A run that is deleted before it is read makes the page shorter, and not the list.
    found, end = await store.newest(call.database, *part, asked, start, asked.limit + 1)
    some, more = cut(found, asked.limit, lambda last: cursor(NOUN, last))
    more = cursor(NOUN, end) if more is None and end is not None else more
    return Done(models.Runs(await store.rows(call.database, some), more))


@endpoint("GET", _PATH, Right.LOGS, answered=models.WHOLE_RUN, problems=(NOT_FOUND,))
async def get_run(call: Call) -> Done:
    """Show a run: where it stands, its input, its context and its deliveries."""
    run_id = await _visible_run(call)
    found = await store.show(call.database, run_id, ATTEMPTS_MAX, DELIVERIES_MAX)
    if found is None:
        raise not_found(f"run {run_id}")
    return Done(found)


async def _visible_run(call: Call) -> int:
    """Return the id in the path, of a run in the part of the database that the call is about."""
    run_id = call.number("run_id", "run")
    if not call.owns(await store.owner(call.database, run_id)):
        raise not_found(f"run {run_id}")
    return run_id


@endpoint("GET", f"{_PATH}/log", Right.LOGS, query=models.RunPageQuery, answered=models.LOG, problems=(NOT_FOUND,))
async def get_run_log(call: Call) -> Done:
    """Show what happened to a run."""
    run_id = await _visible_run(call)
    asked: models.RunPageQuery = call.query
    first = 0 if asked.cursor is None else read_numbers(LOG_NOUN, asked.cursor, 1)[0]
    found = await store.log(call.database, run_id, first, asked.limit + 1)
    # The next page begins at a number, and not behind one.
    entries, more = cut(found, asked.limit, lambda last: cursor(LOG_NOUN, last.number + 1))
    return Done(models.Log(list(entries), more))


@endpoint(
    "GET",
    f"{_PATH}/deliveries",
    Right.LOGS,
    query=models.RunPageQuery,
    answered=models.ORDERED_DELIVERIES,
    problems=(NOT_FOUND,),
)
async def list_run_deliveries(call: Call) -> Done:
    """List the deliveries that a run has ordered, the first ones first."""
    run_id = await _visible_run(call)
    asked: models.RunPageQuery = call.query
    first = 0 if asked.cursor is None else read_numbers(ORDERED_NOUN, asked.cursor, 1)[0]
    rows = await store.ordered(call.database, run_id, first, asked.limit + 1)
    return Done(models.OrderedDeliveries(*page(rows, asked.limit, models.Ordered, by_id(ORDERED_NOUN))))


@endpoint(
    "GET",
    f"{_PATH}/progress",
    Right.LOGS,
    query=models.ProgressQuery,
    answered=models.PROGRESS,
    problems=(NOT_FOUND,),
)
async def get_run_progress(call: Call) -> Done:
    """Show where a run stands, and what has happened to it from an entry of its log on."""
    run_id = await _visible_run(call)
    asked: models.ProgressQuery = call.query
    found = await store.progress(call.database, run_id, asked.first, asked.limit)
    if found is None:
        raise not_found(f"run {run_id}")
    return Done(found)


def _action(verb: store.Verb, description: str) -> Endpoint:
    async def handle(call: Call) -> Done:
        run_id = await _visible_run(call)
        return _done(verb, run_id, await store.act(call.database, verb, run_id, call.given.reason, call.actor))

    handle.__name__, handle.__doc__ = f"{verb}_run", description
    path = f"{_PATH}/{verb}"
    return endpoint("POST", path, Right.TRIGGERS, given=Why, example=_WHY, answered=ACTED, problems=_ACTING)(handle)


pause_run = _action("pause", "Let a run go no further; what it has queued waits.")
resume_run = _action("resume", "Let a paused run go on.")
cancel_run = _action("cancel", "Cancel a run: it sends nothing more.")
replay_run = _action("replay", "Let a failed run go on from where it failed; what was sent is not sent again.")


@endpoint(
    "POST",
    f"{_PATH}/signal",
    Right.TRIGGERS,
    given=models.Signal,
    example={"event": "paid", "data": {"amount": 120}},
    answered=ACTED,
    problems=_ACTING,
)
async def signal_run(call: Call) -> Done:
    """Send a run an event."""
    run_id = await _visible_run(call)
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
