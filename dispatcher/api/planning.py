"""Plans over HTTP: what a trigger would do, without doing any of it."""

import msgspec

from dispatcher.api import plan_models as models
from dispatcher.api.endpoints import Call, Done, Endpoint
from dispatcher.api.problems import CONFLICT, NOT_FOUND, faulty
from dispatcher.api.runs import named_key, refusal
from dispatcher.domain.roles import Right
from dispatcher.errors import AssumptionRefused, TriggerRefused
from dispatcher.store import planning
from dispatcher.store.runs import Trigger


async def plan(call: Call) -> Done:
    """What a trigger of the workflow in the path would do."""
    given: models.NewPlan = call.given
    asked = Trigger(
        workflow=call.path["name"],
        input=call.raw("input"),
        # An Idempotency-Key is that of this request, and starts no run.
        key=named_key(given),
        workspace=call.workspace,
        by=call.actor,
    )
    try:
        planned = await planning.plan(call.database, call.served.config(), asked, given.assume, call.served.offload)
    except TriggerRefused as refused:
        raise refusal(refused) from refused
    except AssumptionRefused as refused:
        raise faulty(refused.faults) from refused
    return Done(msgspec.convert(planned, models.PlannedRun, from_attributes=True))


ENDPOINTS = (
    Endpoint(
        operation="planWorkflow",
        method="POST",
        path="/workflows/{name}/plan",
        right=Right.TRIGGERS,
        summary="Show what a trigger would do: the path, its times, and each message as it would be sent",
        description="Nothing is written, and nothing sent. It is refused like the trigger. Messages are taken to be "
        "sent, and functions to answer. The first 20 recipients of a node are shown with what they would get, and 4 "
        "MiB in all; what takes more than 2 s of a processor's time is refused.",
        given=models.NewPlan,
        example={"input": {"order": {"id": 17}}, "idempotency_key": "order-17"},
        answer=models.PlannedRun,
        problems=(NOT_FOUND, CONFLICT),
        handle=plan,
    ),
)
