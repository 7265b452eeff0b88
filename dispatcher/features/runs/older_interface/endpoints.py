"""The endpoint of the older interface: one address for all actions, answers in an envelope."""

from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from dispatcher.base.errors import TriggerRefused
from dispatcher.features.runs import store
from dispatcher.features.runs.endpoints import started
from dispatcher.features.runs.older_interface.models import (
    ENVELOPE,
    Asking,
    Enqueue,
    Enqueued,
    Enqueuing,
    Envelope,
    Execution,
    Health,
    Looking,
    ToEnqueue,
    ToLookAt,
)
from dispatcher.http import reading
from dispatcher.http.cursors import ID_MAX
from dispatcher.http.endpoints import Call, Done, endpoint
from dispatcher.http.problems import FAULTY, OVERLOADED, Problem, faulty
from dispatcher.http.roles import Right

# The length of a value that an error repeats.
SHOWN_CHARACTERS_MAX = 100
EXISTS = "Workflow already exists (idempotent)"

M = TypeVar("M", bound=Struct)


@endpoint(
    "POST",
    "/workflow-enqueue",
    Right.TRIGGERS,
    given=Enqueue,
    example={
        "action": "enqueue",
        "payload": {"workflow": "order_shipped", "data": {"order": {"id": 17}}, "correlation_id": "order-17"},
    },
    answered=ENVELOPE,
    description="Whatever goes wrong is `success: false` with the `error` in words, and 400 where the request is "
    "wrong: `Missing required fields: a, b`; else `Missing template variables: x, y. These placeholders exist in "
    "workflow steps but were not provided in data.`; `Workflow not found: NAME`, also where it is not active; "
    "`Execution not found: ID`; `Unknown action: X`. An `enqueue` with a `correlation_id` that has started a run "
    f"answers that run with its status, and the message `{EXISTS}`.",
    problems=(OVERLOADED,),
    traced=True,
    enveloped=((Enqueuing, Enqueued), (Looking, Execution), (Asking, Health)),
)
async def workflow_enqueue(call: Call) -> Done:
    """Trigger a workflow or ask about a run, as callers of the older interface do."""
    given: Enqueue = call.given
    data: Struct
    match given.action:
        case "enqueue":
            data = await _enqueued(call, _payload(given.payload, ToEnqueue))
        case "status":
            data = await _execution(call, _payload(given.payload, ToLookAt).execution_id)
        case "health":
            data = Health("healthy", datetime.now(UTC))
        case other:
            raise _refused(f"Unknown action: {_shown(other)}")
    return Done(Envelope(success=True, data=data))


async def _enqueued(call: Call, asked: ToEnqueue) -> Enqueued:
    payload = msgspec.json.decode(call.raw("payload"), type=dict[str, Raw])
    # An empty correlation_id counts as none, as in the interface that this replaces.
    key = asked.correlation_id or call.idempotency_key
    try:
        found = await started(call, asked.workflow, bytes(payload["data"]).decode(), key)
    except TriggerRefused as refused:
        raise _refused(_words(asked.workflow, refused)) from refused
    made = Enqueued(
        execution_id=str(found.execution_id),
        workflow_name=found.workflow_name,
        status="queued",
        total_steps=found.total_steps,
    )
    if not found.duplicate:
        return made
    before = await _execution(call, found.execution_id)
    return msgspec.structs.replace(made, status=before.status, message=EXISTS)


def _words(workflow: str, refused: TriggerRefused) -> str:
    """Return the error of a refused trigger; required fields come first."""
    if refused.why != "faulty":
        return f"Workflow not found: {_shown(workflow)}"
    if refused.missing.fields:
        return f"Missing required fields: {', '.join(refused.missing.fields)}"
    if refused.missing.variables:
        return (
            f"Missing template variables: {', '.join(refused.missing.variables)}. "
            "These placeholders exist in workflow steps but were not provided in data."
        )
    return refused.message


async def _execution(call: Call, execution_id: int | str) -> Execution:
    """Return a run of the call's workspace. Raises Problem."""
    text = str(execution_id)
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(ID_MAX)) and int(text) <= ID_MAX
    row = await store.execution(call.database, int(text), call.workspace) if is_number else None
    if row is None:
        raise _refused(f"Execution not found: {_shown(text)}")
    return msgspec.convert(row, Execution)


def _payload(given: dict[str, Any], model: type[M]) -> M:
    faults = list(reading.faults_of(given, model, "$.payload"))
    if faults:
        raise faulty(faults)
    return msgspec.convert(given, model)


def _refused(words: str) -> Problem:
    return Problem(FAULTY, words)


def _shown(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS_MAX else f"{text[:SHOWN_CHARACTERS_MAX]}…"
