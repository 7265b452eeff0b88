"""Triggers and runs over HTTP: starting runs, looking at them and at their logs, and what may be done to one."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from dispatcher.api import models, run_models
from dispatcher.api.cursors import behind, below, cursor
from dispatcher.api.endpoints import Call, Done, Endpoint
from dispatcher.api.listing import by_id, cut, page
from dispatcher.api.problems import CONFLICT, NOT_FOUND, OVERLOADED, Problem, faulty, not_found
from dispatcher.domain.answers import run_sentence
from dispatcher.domain.plans.labels import label
from dispatcher.domain.plans.plan import Plan
from dispatcher.domain.roles import Right
from dispatcher.errors import Fault, TriggerRefused
from dispatcher.store import runs as store
from dispatcher.store.runs import Trigger, Triggered

NOUN = "runs"
# Behind the first of all.
LOG_NOUN = "log"
ORDERED_NOUN = "run_deliveries"
DELIVERIES_MAX = 100
# Of its deliveries, in the answer about a run.
ATTEMPTS_MAX = 500


async def trigger(call: Call) -> Done:
    """Start a run of the workflow in the path."""
    given: run_models.NewTrigger = call.given
    # With an Idempotency-Key it is one transaction with its answer, and nobody else's.
    start = call.served.trigger if call.idempotency_key is None else partial(store.trigger, call.database)
    found = await started(call, call.path["name"], call.raw("input"), _key(given, call), start)
    return Done(found, 200 if found.duplicate else 201)


def _key(given: run_models.NewTrigger, call: Call) -> str | None:
    named = named_key(given)
    # A trigger that is sent again with the same header has the same run, also after its answer was forgotten.
    return call.idempotency_key if named is None else named


def named_key(given: run_models.NewTrigger) -> str | None:
    """The key of a run, by whichever of its names."""
    named = [one for one in (given.idempotency_key, given.correlation_id) if one is not None]
    if len(set(named)) > 1:
        raise faulty([Fault("$.correlation_id", "is another name for idempotency_key: keep one of them")])
    return named[0] if named else None


async def started(
    call: Call, workflow: str, given: str, key: str | None, start: Callable[[Trigger], Awaitable[Triggered]]
) -> run_models.Triggered:
    """The run of a trigger, or the one that its key has started already. Raises Problem."""
    try:
        found = await begun(call, workflow, given, key, start)
    except TriggerRefused as refused:
        raise refusal(refused) from refused
    return msgspec.convert(found, run_models.Triggered, from_attributes=True)


async def begun(
    call: Call, workflow: str, given: str, key: str | None, start: Callable[[Trigger], Awaitable[Triggered]]
) -> Triggered:
    """The same; raises TriggerRefused."""
    await call.served.shed(None)
    return await start(Trigger(workflow=workflow, input=given, key=key, workspace=call.workspace, by=call.actor))


def refusal(refused: TriggerRefused) -> Problem:
    """What a trigger is answered that is refused."""
    match refused.why:
        case "unknown":
            return Problem(NOT_FOUND, refused.message, refused.faults)
        case "not now":
            return Problem(CONFLICT, refused.message, refused.faults)
        case "faulty":
            return faulty(refused.faults, refused.message)


async def list_(call: Call) -> Done:
    """The newest."""
    asked: run_models.RunQuery = call.query
    which = store.Filter(
        workflow=asked.workflow,
        status=asked.status,
        since=asked.since,
        tenant_id=call.workspace.tenant_id,
        workspace_id=call.workspace.workspace_id,
        key=asked.idempotency_key,
    )
    start = min(below(NOUN, asked.cursor), asked.before)
    # What is gone before it is read makes the page shorter, and not the list.
    found = await store.newest(call.database, which, start, asked.limit + 1)
    some, more = cut(found, asked.limit, lambda last: cursor(NOUN, last))
    rows = await store.rows(call.database, some)
    return Done(run_models.Runs([msgspec.convert(shown(row), run_models.Run) for row in rows], more))


async def show(call: Call) -> Done:
    """One, whole."""
    return Done(await whole(call, await _own(call)))


async def whole(call: Call, run_id: int) -> run_models.WholeRun:
    """A run as its status is told. Another tenant's is none."""
    found = await store.show(call.database, run_id, DELIVERIES_MAX)
    if found is None or not call.owns(found):
        raise not_found(f"run {run_id}")
    walked = await store.plan(call.database, run_id)
    made = {"steps": _steps(walked), "attempts": _attempts(found), "cursor": msgspec.to_builtins(found["cursor"])}
    return msgspec.convert(shown(found) | made, run_models.WholeRun)


def _steps(walked: Plan | None) -> list[run_models.Step]:
    """Its nodes, in the order of the definition."""
    nodes = {} if walked is None else walked.nodes
    return [run_models.Step(node.step, name, label(node)) for name, node in nodes.items()]


def _attempts(found: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What did not end its deliveries well: those lines of its log that have no number."""
    return [one for one in found["log"] if "number" not in one][:ATTEMPTS_MAX]


def shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row in the words of this door."""
    return {
        **row,
        "execution_id": row["id"],
        "workflow_name": row["workflow"],
        "retry_count": row["retries"],
        "error_step": row["error_node"],
    }


async def deliveries(call: Call) -> Done:
    """What one has ordered."""
    run_id = await _own(call)
    asked: run_models.OrderedQuery = call.query
    first = 0 if asked.cursor is None else behind(ORDERED_NOUN, asked.cursor, 1)[0]
    rows = await store.ordered(call.database, run_id, first, asked.limit + 1)
    return Done(run_models.OrderedDeliveries(*page(rows, asked.limit, run_models.Ordered, by_id(ORDERED_NOUN))))


async def progress(call: Call) -> Done:
    """Where one stands."""
    run_id = await _own(call)
    asked: run_models.ProgressQuery = call.query
    found = await store.progress(call.database, run_id, asked.first, asked.limit + 1)
    if found is None:
        raise not_found(f"run {run_id}")
    made = run_models.Progress(
        run=msgspec.convert(shown(found.run), run_models.Run),
        cursor=msgspec.to_builtins(found.cursor),
        counts={node: dict(counts) for node, counts in found.counts.items()},
        entries=[msgspec.convert(one, run_models.Entry) for one in found.entries[: asked.limit]],
        more=len(found.entries) > asked.limit,
    )
    return Done(made)


async def log(call: Call) -> Done:
    """What happened to one."""
    run_id = await _own(call)
    asked: run_models.LogQuery = call.query
    first = 0 if asked.cursor is None else behind(LOG_NOUN, asked.cursor, 1)[0]
    entries = await store.log(call.database, run_id, first, asked.limit + 1)
    # The next page begins at a number, and not behind one.
    return Done(
        run_models.Log(*page(entries, asked.limit, run_models.Entry, lambda one: cursor(LOG_NOUN, one["number"] + 1)))
    )


async def _own(call: Call) -> int:
    run_id = call.number("run_id", "run")
    if not call.owns(await store.owner(call.database, run_id)):
        raise not_found(f"run {run_id}")
    return run_id


async def signal(call: Call) -> Done:
    """Send one an event."""
    run_id = await _own(call)
    given: run_models.Signal = call.given
    try:
        answer = await store.signal(call.database, run_id, given.event, call.raw("data"), call.actor)
    except TriggerRefused as refused:
        raise refusal(refused) from refused
    return _done("signal", run_id, answer)


def _acting(verb: store.Verb, summary: str) -> Endpoint:
    async def act(call: Call) -> Done:
        run_id = await _own(call)
        return _done(verb, run_id, await store.act(call.database, verb, run_id, call.given.reason, call.actor))

    return Endpoint(
        operation=f"{verb}Run",
        method="POST",
        path=f"/runs/{{run_id}}/{verb}",
        right=Right.TRIGGERS,
        summary=summary,
        given=models.Why,
        example={"reason": "the order is in doubt"},
        answer=models.Acted,
        problems=(NOT_FOUND, CONFLICT),
        handle=act,
    )


def _done(verb: str, run_id: int, answer: str) -> Done:
    done, words = run_sentence(verb, run_id, answer)
    if not done:
        raise Problem(CONFLICT, words, answer=answer)
    return Done(models.Acted(run_id, answer, words))


_VERBS: Mapping[store.Verb, str] = {
    "pause": "Let a run go no further; what it has queued waits",
    "resume": "Let a paused run go on",
    "cancel": "Cancel a run: it sends nothing more",
    "replay": "Let a failed run go on from where it failed; what was sent is not sent again",
}

ENDPOINTS = (
    Endpoint(
        operation="triggerWorkflow",
        method="POST",
        path="/workflows/{name}/triggers",
        right=Right.TRIGGERS,
        summary="Start a run of a workflow",
        description="A key starts one run: who triggers with it again gets the first one, with `duplicate: true`.",
        given=run_models.NewTrigger,
        example={"input": {"order": {"id": 17}}, "idempotency_key": "order-17"},
        answer=run_models.Triggered,
        status=201,
        problems=(NOT_FOUND, CONFLICT, OVERLOADED),
        handle=trigger,
        gathers=True,
        makes=("run_id", "execution_id"),
    ),
    Endpoint(
        operation="listRuns",
        method="GET",
        path="/runs",
        right=Right.LOGS,
        summary="List runs, the newest first",
        query=run_models.RunQuery,
        answer=run_models.Runs,
        handle=list_,
    ),
    Endpoint(
        operation="getRun",
        method="GET",
        path="/runs/{run_id}",
        right=Right.LOGS,
        summary="Show a run: where it stands, its input, its context and its deliveries",
        answer=run_models.WholeRun,
        problems=(NOT_FOUND,),
        handle=show,
    ),
    Endpoint(
        operation="getRunLog",
        method="GET",
        path="/runs/{run_id}/log",
        right=Right.LOGS,
        summary="Show what happened to a run",
        query=run_models.LogQuery,
        answer=run_models.Log,
        problems=(NOT_FOUND,),
        handle=log,
    ),
    Endpoint(
        operation="listRunDeliveries",
        method="GET",
        path="/runs/{run_id}/deliveries",
        right=Right.LOGS,
        summary="List the deliveries that a run has ordered, the first ones first",
        query=run_models.OrderedQuery,
        answer=run_models.OrderedDeliveries,
        problems=(NOT_FOUND,),
        handle=deliveries,
    ),
    Endpoint(
        operation="getRunProgress",
        method="GET",
        path="/runs/{run_id}/progress",
        right=Right.LOGS,
        summary="Show where a run stands, and what has happened to it from an entry of its log on",
        query=run_models.ProgressQuery,
        answer=run_models.Progress,
        problems=(NOT_FOUND,),
        handle=progress,
    ),
    *(_acting(verb, summary) for verb, summary in _VERBS.items()),
    Endpoint(
        operation="signalRun",
        method="POST",
        path="/runs/{run_id}/signal",
        right=Right.TRIGGERS,
        summary="Send a run an event",
        given=run_models.Signal,
        example={"event": "paid", "data": {"amount": 120}},
        answer=models.Acted,
        problems=(NOT_FOUND, CONFLICT),
        handle=signal,
    ),
)
