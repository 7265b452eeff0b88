"""The older interface: one address, and answers in an envelope of their own."""

from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from dispatcher.api import reading, run_models, runs
from dispatcher.api.endpoints import Call, Done, Endpoint
from dispatcher.api.problems import CONFLICT, NOT_FOUND, OVERLOADED, faulty
from dispatcher.domain.roles import Right
from dispatcher.errors import Fault
from dispatcher.store import runs as store
from dispatcher.version import VERSION

M = TypeVar("M", bound=Struct)


async def enqueue(call: Call) -> Done:
    """Do what the action says."""
    given: run_models.Enqueue = call.given
    match given.action:
        case "enqueue":
            return _told(await _enqueued(call, _payload(given.payload, run_models.EnqueuePayload)))
        case "status":
            asked = _payload(given.payload, run_models.StatusPayload)
            return _told(await runs.whole(call, asked.execution_id))
        case "health":
            return _told({"status": "healthy", "version": VERSION})


async def _enqueued(call: Call, asked: run_models.EnqueuePayload) -> run_models.Triggered:
    named = {one for one in (asked.idempotency_key, asked.correlation_id) if one is not None}
    if len(named) > 1:
        raise faulty([Fault("$.payload.correlation_id", "is another name for idempotency_key: keep one of them")])
    payload = msgspec.json.decode(call.raw("payload"), type=dict[str, Raw])
    given = bytes(payload["input"]).decode() if "input" in payload else "{}"
    key = named.pop() if named else call.idempotency_key
    return await runs.started(call, asked.workflow_name, given, key, partial(store.trigger, call.database))


def _payload(given: dict[str, Any], model: type[M]) -> M:
    faults = list(reading.faults_of(given, model, "$.payload"))
    if faults:
        raise faulty(faults)
    return msgspec.convert(given, model)


def _told(data: object) -> Done:
    return Done(run_models.Envelope(success=True, data=data))


ENDPOINTS = (
    Endpoint(
        operation="workflowEnqueue",
        method="POST",
        path="/workflow-enqueue",
        right=Right.TRIGGERS,
        summary="Trigger a workflow or ask about a run, as callers of the older interface do",
        description="`enqueue` takes `workflow_name`, `input` and `correlation_id`; `status` an `execution_id`; "
        "`health` nothing. Whatever goes wrong is `success: false` with the `error` in words.",
        given=run_models.Enqueue,
        example={"action": "enqueue", "payload": {"workflow_name": "order_shipped", "input": {"order": {"id": 17}}}},
        answer=run_models.Envelope,
        problems=(NOT_FOUND, CONFLICT, OVERLOADED),
        handle=enqueue,
        enveloped=True,
    ),
)
