"""Dry runs over HTTP: what a trigger would do, without doing any of it."""

from dispatcher.base.errors import AssumptionRefused, TriggerRefused
from dispatcher.features.runs.dry_run import models, planner
from dispatcher.features.runs.endpoints import named_key
from dispatcher.features.runs.store import Trigger
from dispatcher.http.endpoints import Call, Done, endpoint
from dispatcher.http.problems import CONFLICT, NOT_FOUND, faulty, refusal
from dispatcher.http.roles import Right


@endpoint(
    "POST",
    "/workflows/{name}/plan",
    Right.TRIGGERS,
    given=models.NewPlan,
    example={"input": {"order": {"id": 17}}, "idempotency_key": "order-17"},
    answered=models.PLANNED_RUN,
    problems=(NOT_FOUND, CONFLICT),
)
async def plan_workflow(call: Call) -> Done:
    """Show what a trigger would do: the path, its times, and each message as it would be sent.

    Nothing is written, and nothing sent. It is refused like the trigger. Messages are taken to be sent, and functions
    to answer. The first 20 recipients of a node are shown with what they would get, and 4 MiB in all; what takes more
    than 2 s of a processor's time is refused.
    """
    given: models.NewPlan = call.given
    # The Idempotency-Key is the key of this request, not of a run.
    key = named_key(given)
    asked = Trigger(
        workflow=call.path["name"], input=call.raw("input"), key=key, workspace=call.workspace, by=call.actor
    )
    try:
        return Done(await planner.plan(call.database, call.served.config(), asked, given.assume, call.served.offload))
    except TriggerRefused as refused:
        raise refusal(refused) from refused
    except AssumptionRefused as refused:
        raise faulty(refused.faults) from refused
