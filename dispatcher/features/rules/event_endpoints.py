"""The endpoints of events: notify, note what became of a fallback, and explain what an event would do."""

from collections.abc import Sequence
from typing import Any

import msgspec

from dispatcher.base.errors import RulesRefused, TemplateError
from dispatcher.base.values.sms_segments import segments_of
from dispatcher.features.rules import models, store
from dispatcher.features.rules.models import Decision, ExplainedMessage
from dispatcher.features.rules.rules import with_sample
from dispatcher.features.templates.rules import preview
from dispatcher.http.endpoints import Call, Done, endpoint
from dispatcher.http.problems import NOT_FOUND, OVERLOADED, faulty, not_found
from dispatcher.http.roles import Right
from dispatcher.liquid.template import Bounds, Sources

_RIGHT = Right.TRIGGERS
_EVENT = {
    "trigger": "lead_welcome",
    "lead": {"name": "Ann", "email": "ann@example.org"},
    "message_id": "lead-17",
}
# Messages that one explanation renders.
RENDERED_MAX = 200


@endpoint(
    "POST",
    "/events",
    _RIGHT,
    given=models.NewEvent,
    example=_EVENT,
    answered=models.NOTIFIED,
    status=201,
    problems=(OVERLOADED,),
    traced=True,
)
async def notify(call: Call) -> Done:
    """Tell an event to whom the rules say.

    The answer says for each channel and audience what was decided, and why. A message id is handled once: the repeat
    answers the first answer, as a duplicate.
    """
    (decisions,) = await _notified(call, f"[{call.body.decode()}]", 1, store.ONE)
    return Done(models.Notified(decisions), 200 if _is_known(decisions) else 201)


@endpoint(
    "POST",
    "/events/batch",
    _RIGHT,
    given=models.NewEvents,
    example={"events": [_EVENT]},
    answered=models.NOTIFIED_MANY,
    problems=(OVERLOADED,),
    large=True,
    traced=True,
)
async def notify_many(call: Call) -> Done:
    """Tell many events, or none of them where any has a fault."""
    events = call.given.events
    answers = await _notified(call, call.raw("events"), len(events), store.MANY)
    return Done(models.NotifiedMany([models.Notified(decisions) for decisions in answers]))


async def _notified(call: Call, events: str, count: int, path: str) -> list[list[Decision]]:
    await call.served.shed(None)
    try:
        return await store.notify(call.database, call.workspace, events, count, path, traceparent=call.traceparent)
    except RulesRefused as refused:
        raise faulty(refused.faults) from refused


def _is_known(decisions: Sequence[Decision]) -> bool:
    return any(one.decision == "duplicate" for one in decisions)


@endpoint(
    "POST",
    "/events/{event_id}/outcomes",
    _RIGHT,
    given=models.Outcome,
    example={"channel": "email", "audience": "lead", "outcome": "done"},
    answered=models.NOTED,
    problems=(NOT_FOUND,),
)
async def note_outcome(call: Call) -> Done:
    """Note what became of the caller's own code, which ran as the fallback."""
    given: models.Outcome = call.given
    event_id = call.number("event_id", "event")
    answer = await store.note(
        call.database,
        call.workspace,
        event_id,
        given.channel,
        given.audience,
        outcome=given.outcome,
        error=given.error,
    )
    if answer == "unknown":
        raise not_found(f"fallback of event {event_id} for {given.channel}/{given.audience}")
    return Done(models.NotedOutcome("noted" if answer == "noted" else "before"))


@endpoint(
    "POST",
    "/rules/explain",
    Right.RULES,
    given=models.NewEvent,
    example={"trigger": "lead_welcome"},
    answered=models.EXPLAINED,
    looks=True,
)
async def explain(call: Call) -> Done:
    """Show what an event would do: every rule, its recipients, and each message as it would be sent.

    What the event leaves out is taken from the sample of its trigger. It is done as an event is, and rolled back.
    """
    given: models.NewEvent = call.given
    asked = {name: value for name, value in msgspec.json.decode(call.body).items() if name != "message_id"}
    for found in await store.triggers(call.database, call.workspace, given.trigger):
        asked = with_sample(asked, msgspec.json.decode(found.sample))
    text = msgspec.json.encode([asked]).decode()
    try:
        async with store.rolled_back(call.database):
            (decisions,) = await store.notify(call.database, call.workspace, text, 1, store.ONE, explain=True)
            ids = [number for one in decisions for number in one.delivery_ids]
            rows = await store.messages(call.database, ids, RENDERED_MAX)
    except RulesRefused as refused:
        raise faulty(refused.faults) from refused
    whose = {number: one for one in decisions for number in one.delivery_ids}
    messages = [await _rendered(call, row, whose[row["id"]]) for row in rows]
    return Done(models.Explained(decisions, messages))


async def _rendered(call: Call, row: Any, decision: Decision) -> ExplainedMessage:  # noqa: ANN401 - asyncpg's record
    fault: str | None = None
    parts: dict[str, str] = {}
    if row["source"] is None:
        sources = Sources(msgspec.json.decode(row["template"]), {}, frozenset())
    else:
        source = msgspec.json.decode(row["source"])
        sources = Sources(source["parts"], source["partials"], frozenset(row["rights"]))
    bounds = Bounds.of(call.served.config().limits)
    try:
        _, parts = await call.served.offload.call_if_heavy(
            call.workspace.tenant_id, preview, row["channel"], sources, row["variables"], bounds
        )
    except TemplateError as refused:
        fault = str(refused)
    return ExplainedMessage(
        channel=row["channel"],
        audience=decision.audience,
        recipient=row["recipient"],
        at=row["scheduled_for"],
        expires_at=row["expires_at"],
        template=row["template_name"],
        version=row["number"],
        parts=parts,
        fault=fault,
        sms=segments_of(row["channel"], parts),
    )


ENDPOINTS = (notify, notify_many, note_outcome, explain)
