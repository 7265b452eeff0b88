"""Examples of answers, one of each model, for whoever reads the document before having a key."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct, structs

from dispatcher.api import (
    audit,
    contact_models,
    models,
    pause_models,
    person_models,
    plan_models,
    run_models,
    suppression_models,
    sweep_models,
    template_models,
)
from dispatcher.api.enqueue_models import Enqueued, Envelope
from dispatcher.api.problems import Refused
from dispatcher.errors import Fault

_BEGUN = datetime(2030, 1, 31, 8, 0, 0, tzinfo=UTC)
_ENDED = datetime(2030, 1, 31, 8, 0, 1, tzinfo=UTC)

_fault = Fault("channel", 'unknown channel "fax"; known are: email, sms')
_written = models.Written(17, "order-17:shipped", duplicate=False)
_delivery = models.Delivery(
    id=17,
    tenant_id="default",
    workspace_id="default",
    idempotency_key="order-17:shipped",
    channel="email",
    recipient="ann@example.org",
    lane="normal",
    life="sent",
    status="sent",
    attempt=2,
    max_attempts=5,
    run_at=_BEGUN,
    finished_at=_ENDED,
    provider_message_id="m-4711",
    error=None,
)
_whole_delivery = models.WholeDelivery(
    **structs.asdict(_delivery),
    template_name=None,
    template_version=None,
    locale=None,
    template={"subject": "Order {{ id }}", "text": "It is on its way."},
    variables={"id": 17},
    options={},
    topic=None,
    run_id=None,
    job_id=None,
    scheduled_for=_BEGUN,
    expires_at=None,
    created_at=_BEGUN,
    receipt="delivered",
    attempts=[models.Attempt(attempt=1, outcome="retry", ended_at=_BEGUN, next_at=_ENDED, reason="451 try again")],
    evidence=[
        models.Evidence(seen_at=_ENDED, verdict="accepted", resolved=True, provider_message_id="m-4711", reason=None)
    ],
    receipts=[
        models.Receipt(
            seen_at=_ENDED, said_at=_ENDED, provider="resend", kind="delivered", provider_message_id=None, reason=""
        )
    ],
    actions=[models.Action(at=_BEGUN, actor="key shop", action="move", status_before="queued", reason="in doubt")],
    captured=[
        models.Captured(captured_at=_ENDED, attempt=2, recipient="ann@example.org", parts={"text": "…"}, fault=None)
    ],
)
_held = models.HeldDelivery(
    id=18,
    tenant_id="default",
    workspace_id="default",
    idempotency_key="order-18:shipped",
    channel="sms",
    recipient="+4917012345",
    attempt=1,
    held_at=_BEGUN,
    settle_after=_ENDED,
    error="no answer",
)
_letter = models.Letter(
    kind="delivery",
    id=19,
    tenant_id="default",
    workspace_id="default",
    name=None,
    node=None,
    channel="sms",
    recipient="+4917012345",
    idempotency_key="order-19:shipped",
    error="exhausted",
    created_at=_BEGUN,
    failed_at=_ENDED,
    retries=0,
)
_workflow = run_models.Workflow(
    name="order_shipped", active=True, version=3, total_steps=1, author="key ann", created_at=_BEGUN
)
_saved_workflow = run_models.SavedWorkflow("order_shipped", 3, created=True, active=True, total_steps=1)
_triggered = run_models.Triggered(23, "order_shipped", 3, "queued", 4, duplicate=False)
_enqueued = Envelope(
    success=True,
    data=Enqueued(execution_id="23", workflow_name="order_shipped", status="queued", total_steps=4),
)
_run = run_models.Run(
    execution_id=23,
    tenant_id="default",
    workspace_id="default",
    workflow_name="order_shipped",
    version=3,
    status="waiting",
    current_steps=["later"],
    total_steps=4,
    idempotency_key="order-17",
    triggered_by="key shop",
    retry_count=0,
    error=None,
    error_step=None,
    note=None,
    available_at=_ENDED,
    created_at=_BEGUN,
    started_at=_BEGUN,
    finished_at=None,
)
_COUNTS = {"all": 1, "queued": 0, "held": 0, "failed": 0, "skipped": 0, "attempts": 1}
_visit = run_models.Visit("delaying", 1_896_163_200.0, 1_896_163_201.0)
_whole_run = run_models.WholeRun(
    **structs.asdict(_run),
    paused_at=None,
    discarded_at=None,
    steps=[run_models.Step(0, "mail", "email to {{ customer.email }}"), run_models.Step(1, "later", "delay 1s")],
    cursor={"later": _visit},
    counts={"mail": _COUNTS},
    attempts=[
        run_models.RunAttempt(
            at=_BEGUN,
            event="retry",
            node="mail",
            delivery_id=17,
            recipient="ann@example.org",
            attempt=1,
            error="451 try again",
            next_at=_ENDED,
        )
    ],
    input={"order": {"id": 17}},
    context={"order": {"id": 17}, "step_0_result": {"status": "sent", "message_id": "m-4711"}},
    held=0,
    deliveries_total=1,
    deliveries=[{"id": 17, "node": "mail", "channel": "email", "status": "sent"}],
)
_entry = run_models.Entry(number=1, at=_BEGUN, event="started", step=0, node="mail", context={"order": {"id": 17}})
_contact = contact_models.Contact(
    id=17,
    key="customer-17",
    name="Ann Lee",
    company="Lee & Sons",
    status="customer",
    time_zone="Europe/Berlin",
    locale="de",
    tags=["newsletter"],
    attributes={"plan": "gold"},
    addresses=[{"kind": "email", "address": "Ann@example.org"}],
    version=2,
    created_at=_BEGUN,
    updated_at=_ENDED,
    updated_by="key shop",
)

_erasure = person_models.Erasure(
    id=3,
    asked_at=_BEGUN,
    looked_at=_ENDED,
    finished_at=_ENDED,
    deliveries=12,
    runs=2,
    waits_for=0,
    actor="key shop",
    reason="she asked for it",
    subjects=["sha256:9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab"],
)
_entry_of_timeline = {
    "kind": "delivery",
    "id": 17,
    "at": _BEGUN,
    "channel": "email",
    "subject": "Order {{ id }}",
    "life": "sent",
    "run_id": 23,
    "node": "mail",
    "reason": "node mail of run 23 of the workflow order_shipped, triggered by key shop",
}
_ordered = run_models.Ordered(
    id=17,
    node="mail",
    channel="email",
    recipient="ann@example.org",
    life="sent",
    status="sent",
    attempt=2,
    max_attempts=3,
    run_at=_BEGUN,
    finished_at=_ENDED,
    provider_message_id="m-4711",
    error=None,
)
_progress = run_models.Progress(
    run=_run, cursor={"later": _visit}, counts={"mail": _COUNTS}, entries=[_entry], more=False
)

_ALL: tuple[Struct, ...] = (
    _written,
    models.WrittenMany([_written]),
    models.Deliveries([_delivery], next_cursor="ZGVsaXZlcmllcyAxNw"),
    _whole_delivery,
    models.Mail(17, b"Subject: Order 17\r\n\r\nIt is on its way.\r\n"),
    models.SentLines([models.SentLine(id=17, idempotency_key="order-17:shipped"), models.SentLine(faults=[_fault])]),
    models.Acted(17, "cancelled", "delivery 17 is cancelled"),
    models.HeldDeliveries([_held], next_cursor=None),
    models.Standing(
        id=18,
        life="held",
        held_at=_BEGUN,
        settle_after=_ENDED,
        error="no answer",
        wait_seconds=0.0,
        actor=None,
        action=None,
        at=None,
        reason=None,
    ),
    models.Letters([_letter], next_cursor=None),
    models.LetterActed("delivery", 19, "reopened", "delivery 19 will be sent again"),
    run_models.Workflows([_workflow], next_cursor=None),
    run_models.WholeWorkflow(
        **structs.asdict(_workflow),
        definition={"name": "order_shipped", "entryNodeId": "mail", "nodes": [], "edges": []},
        latest=3,
        required_fields=["order"],
        reads=["order.id", "customer.email"],
        templates=[],
        steps=[run_models.Step(1, "mail", "email to {{ customer.email }}")],
        graph="● mail  email to {{ customer.email }}\n",
        mermaid="flowchart TD\n",
        versions=[run_models.Version(number=3, total_steps=1, author="key ann", created_at=_BEGUN)],
        actions=[run_models.WorkflowAction(at=_ENDED, version=3, actor="key ann", action="activate")],
    ),
    _saved_workflow,
    run_models.SavedWorkflows([_saved_workflow]),
    run_models.ComparedWorkflows(
        [
            run_models.ComparedWorkflow(
                name="order_shipped",
                total_steps=1,
                stored=run_models.StoredWorkflow(
                    2, active=True, definition={"name": "order_shipped", "entryNodeId": "mail", "nodes": []}
                ),
            ),
            run_models.ComparedWorkflow(faults=[Fault("$.nodes[0].type", "there is no type or channel emial")]),
        ]
    ),
    models.OwnKey("shop", "triggerOperator", "default", "default"),
    run_models.Switched("order_shipped", "done"),
    _triggered,
    run_models.Runs([_run], next_cursor=None),
    _whole_run,
    run_models.OrderedDeliveries([_ordered], next_cursor=None),
    _progress,
    run_models.Log([_entry], next_cursor=None),
    _enqueued,
    *template_models.EXAMPLES,
    *suppression_models.EXAMPLES,
    *audit.EXAMPLES,
    *sweep_models.EXAMPLES,
    *pause_models.EXAMPLES,
    *plan_models.EXAMPLES,
    contact_models.Contacts([_contact], next_cursor=None),
    _contact,
    contact_models.SavedContact("customer-17", "changed", 2),
    person_models.Person([person_models.PersonAddress("email", "ann@example.org")]),
    person_models.Timeline([_entry_of_timeline], next_cursor=None),
    person_models.Erasures([_erasure], next_cursor=None),
    _erasure,
    person_models.Export([{"record": "contact", "key": "customer-17"}], next_cursor="ZXhwb3J0IDEgMQ"),
    contact_models.DeletedContact("customer-17", "deleted"),
    contact_models.Imported(
        1,
        0,
        0,
        [contact_models.Refused(1, "customer-18", [Fault("$.contacts[1].time_zone", "there is no such time zone")])],
        [contact_models.SavedContact("customer-17", "created", 1)],
    ),
)
EXAMPLES: Mapping[type[Struct], Any] = {type(one): msgspec.to_builtins(one) for one in _ALL}
REFUSED = msgspec.to_builtins(Refused(error="Missing required fields: order"))
