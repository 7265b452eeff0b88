"""The matrix: every endpoint with every role, and with a key of another tenant and of another workspace."""

import re
from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import quote
from uuid import uuid4

import asyncpg
import pytest

from dispatcher.endpoints import ENDPOINTS
from dispatcher.http.endpoints import Endpoint
from dispatcher.http.roles import Right, Role
from tests.http.test_roles import AGREED
from tests.support import flows
from tests.support.caller import Answer, Caller, delivery, make_key
from tests.support.home import captured, dead_job
from tests.support.program import Program
from tests.support.scene import Connection

# What the requirements say that each endpoint is about; a new one has to be put here. None: any key may. Clients are
# made of the names: one that changes breaks them.
ABOUT: dict[str, str | None] = {
    "createDelivery": "deliveries",
    "createDeliveries": "deliveries",
    "sendLines": "deliveries",
    "listDeliveries": "deliveries",
    "getDelivery": "deliveries",
    "getDeliveryMail": "deliveries",
    "retryDelivery": "deliveries",
    "repairDelivery": "deliveries",
    "cancelDelivery": "deliveries",
    "moveDelivery": "deliveries",
    "cancelDeliveryByKey": "deliveries",
    "moveDeliveryByKey": "deliveries",
    "sweepDeliveries": "deliveries",
    "getOverview": "logs",
    "listCaptured": "deliveries",
    "getCaptured": "deliveries",
    "listHeld": "held",
    "listHeldGroups": "held",
    "getHeld": "held",
    "resolveHeld": "held",
    "listDeadRuns": "dead_letters",
    "listDeadDeliveries": "dead_letters",
    "listDeadJobs": "dead_letters",
    "listDeadRunGroups": "dead_letters",
    "listDeadDeliveryGroups": "dead_letters",
    "listDeadJobGroups": "dead_letters",
    "replayDeadJob": "dead_letters",
    "discardDeadJob": "dead_letters",
    "replayDeadJobs": "dead_letters",
    "discardDeadJobs": "dead_letters",
    "replayDeadRun": "dead_letters",
    "discardDeadRun": "dead_letters",
    "replayDeadDelivery": "dead_letters",
    "discardDeadDelivery": "dead_letters",
    "replayDeadRuns": "dead_letters",
    "discardDeadRuns": "dead_letters",
    "replayDeadDeliveries": "dead_letters",
    "discardDeadDeliveries": "dead_letters",
    "resolveAllHeld": "held",
    "listWorkflows": "workflows",
    "getWorkflow": "workflows",
    "putWorkflow": "workflows",
    "putWorkflows": "workflows",
    "compareWorkflows": "workflows",
    "deleteWorkflow": "workflows",
    "activateWorkflow": "workflows",
    "deactivateWorkflow": "workflows",
    "listTemplates": "templates",
    "saveTemplates": "templates",
    "getTemplate": "templates",
    "putTemplate": "templates",
    "listTemplateVersions": "templates",
    "listTemplateUses": "templates",
    "publishTemplate": "templates",
    "previewTemplate": "templates",
    "triggerWorkflow": "triggers",
    "planWorkflow": "triggers",
    "listRuns": "logs",
    "getRun": "logs",
    "getRunLog": "logs",
    "listRunDeliveries": "logs",
    "getRunProgress": "logs",
    "pauseRun": "triggers",
    "resumeRun": "triggers",
    "cancelRun": "triggers",
    "replayRun": "triggers",
    "signalRun": "triggers",
    "workflowEnqueue": "triggers",
    "listWebhooks": "webhooks",
    "createWebhook": "webhooks",
    "getWebhook": "webhooks",
    "changeWebhook": "webhooks",
    "rotateWebhook": "webhooks",
    "deleteWebhook": "webhooks",
    "getWebhookLog": "webhooks",
    "getOwnKey": None,
    "listSuppressions": "suppressions",
    "addSuppressions": "suppressions",
    "removeSuppressions": "suppressions",
    "checkAddress": "suppressions",
    "listTopicPreferences": "suppressions",
    "subscribeToTopic": "suppressions",
    "unsubscribeFromTopic": "suppressions",
    "listKeys": "keys",
    "createKey": "keys",
    "rotateKey": "keys",
    "revokeKey": "keys",
    "getKeyLog": "keys",
    "listSchedules": "schedules",
    "getSchedule": "schedules",
    "putSchedule": "schedules",
    "deleteSchedule": "schedules",
    "activateSchedule": "schedules",
    "deactivateSchedule": "schedules",
    "getScheduleTicks": "schedules",
    "listRules": "rules",
    "getRule": "rules",
    "putRule": "rules",
    "saveRules": "rules",
    "enableRule": "rules",
    "disableRule": "rules",
    "deleteRule": "rules",
    "explain": "rules",
    "listTriggers": "rules",
    "getTrigger": "rules",
    "putTrigger": "rules",
    "deleteTrigger": "rules",
    "getSettings": "rules",
    "putSettings": "rules",
    "listQuietHours": "rules",
    "getQuietHours": "rules",
    "putQuietHours": "rules",
    "deleteQuietHours": "rules",
    "listCells": "keys",
    "getCellDirectory": "logs",
    "listCaps": "rules",
    "getCap": "rules",
    "putCap": "rules",
    "deleteCap": "rules",
    "notify": "triggers",
    "notifyMany": "triggers",
    "noteOutcome": "triggers",
    "listAudit": "audit",
    "listObjects": "objects",
    "getObject": "objects",
    "putObject": "objects",
    "eraseObject": "objects",
    "listPauses": "pauses",
    "createPause": "pauses",
    "getPause": "pauses",
    "resumePause": "pauses",
    "listCampaigns": "campaigns",
    "getCampaign": "campaigns",
    "putCampaign": "campaigns",
    "deleteCampaign": "campaigns",
    "planCampaign": "campaigns",
    "deployCampaign": "campaigns",
    "testCampaign": "campaigns",
    "listCampaignRuns": "campaigns",
    "getCampaignRun": "campaigns",
    "pauseCampaignRun": "campaigns",
    "resumeCampaignRun": "campaigns",
    "cancelCampaignRun": "campaigns",
    "setCampaignRunRate": "campaigns",
    "replayCampaignRun": "campaigns",
    "listCampaignRunJobs": "campaigns",
    "traceCampaignRun": "campaigns",
    "getCampaignRunAudit": "campaigns",
    "checkCampaignRun": "campaigns",
    "seeAudience": "campaigns",
    "listContacts": "contacts",
    "createContact": "contacts",
    "getContact": "contacts",
    "putContact": "contacts",
    "patchContact": "contacts",
    "deleteContact": "contacts",
    "searchContacts": "contacts",
    "importContacts": "contacts",
    "findPerson": "contacts",
    "lookUpTimeline": "contacts",
    "lookUpPerson": "contacts",
    "getTimeline": "contacts",
    "exportPerson": "contacts",
    "erasePerson": "contacts",
    "listErasures": "contacts",
    "getErasure": "contacts",
    "listSequences": "sequences",
    "getSequence": "sequences",
    "putSequence": "sequences",
    "deleteSequence": "sequences",
    "addSequenceStep": "sequences",
    "putSequenceStep": "sequences",
    "deleteSequenceStep": "sequences",
    "publishSequence": "sequences",
    "pauseSequence": "sequences",
    "resumeSequence": "sequences",
    "compareSequences": "sequences",
    "previewSequence": "sequences",
    "enrolContact": "enrolments",
    "enrolContacts": "enrolments",
    "listEnrolments": "enrolments",
    "getEnrolment": "enrolments",
    "pauseEnrolment": "enrolments",
    "resumeEnrolment": "enrolments",
    "cancelEnrolment": "enrolments",
    "changeEnrolments": "enrolments",
    "previewMove": "enrolments",
    "moveEnrolments": "enrolments",
    "tellContactEvent": "enrolments",
}
# What has to be asked for.
QUERIES = {"getTimeline": "?address=%2B4917012345", "exportPerson": "?address=%2B4917012345"}
FOREIGN = (("acme", "default"), ("default", "other"))
# What of it belongs to a workspace.
ROWS = (
    "* FROM dispatcher.templates",
    "id, name, revoked_at FROM dispatcher.api_keys",
    "* FROM dispatcher.pauses",
    "* FROM dispatcher.schedules",
    "* FROM dispatcher.rules",
    "* FROM dispatcher.event_triggers",
    "* FROM dispatcher.objects",
    "* FROM dispatcher.webhook_endpoints",
    "* FROM dispatcher.contacts",
    "* FROM dispatcher.sequences",
    "* FROM dispatcher.campaigns",
    "* FROM dispatcher.quiet_hours",
    "* FROM dispatcher.caps",
    "id, rate, paused_at, cancelled_at FROM dispatcher.campaign_runs",
)
_HERE = "WHERE tenant_id = 'default' AND workspace_id = 'default' ORDER BY 1"
WAITING = "waits"
LATER = "2040-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def keys(serving: Program) -> dict[str, str]:
    """A key of each role, and administrators of elsewhere."""
    made = {role.value: make_key(serving, role.value) for role in Role}
    return made | {f"{t}/{w}": make_key(serving, "systemAdmin", t, w) for t, w in FOREIGN}


@pytest.fixture(scope="module")
async def home(admin: Caller, serving: Program) -> dict[str, str]:
    """Something of each kind that stays."""
    inside = await asyncpg.connect(serving.url)
    try:
        await flows.put(inside)
        return await _names(admin, inside)
    finally:
        await inside.close()


def _call(caller: Caller, one: Endpoint, names: dict[str, str], headers: Sequence[tuple[str, str]] = ()) -> Answer:
    path = re.sub(
        r"\{(\w+)\}", lambda match: quote(names.get(f"{one.tag}.{match[1]}") or names[match[1]], ""), one.path
    )
    path += QUERIES.get(one.operation, "")
    if one.example is None:
        return caller.call(one.method, path, headers=headers)
    own = {"idempotency_key": WAITING} if one.operation.endswith("ByKey") else {}
    return caller.call(one.method, path, dict(one.example) | own, headers)


async def _names(admin: Caller, inside: Connection, one: Endpoint | None = None) -> dict[str, str]:
    """Something of each kind in the default workspace, by what stands for it in paths; of an endpoint what it names.

    Of its own each time: what administrators of elsewhere have put there is theirs.
    """
    fresh, found = uuid4().hex, dict[str, str]()
    for make, made in MAKERS.items():
        if one is None or not made.isdisjoint(_named(one)):
            found |= await make(admin, inside, fresh)
    return found


def _named(one: Endpoint) -> set[str]:
    """What stands in an endpoint's path: `tag.name` where things of several kinds are called alike."""
    names = re.findall(r"\{(\w+)\}", one.path)
    return {*names, *(f"{one.tag}.{name}" for name in names)}


async def _delivery(admin: Caller, inside: Connection, _fresh: str) -> dict[str, str]:
    waiting = admin.post("/deliveries", delivery(WAITING, scheduled_for=LATER)).json["id"]
    return {"delivery_id": str(waiting), "captured_id": str(await captured(inside, waiting))}


async def _run(admin: Caller, _inside: Connection, _fresh: str) -> dict[str, str]:
    run = admin.post("/workflows/welcome/triggers", {"idempotency_key": "of-the-matrix"}).json["execution_id"]
    return {"run_id": str(run)}


async def _welcome(admin: Caller, _inside: Connection, _fresh: str) -> dict[str, str]:
    endpoint = {"name": "welcome", "url": "https://example.org/", "events": ["run.*"], "reason": "a test"}
    assert admin.post("/webhooks", endpoint).status in (201, 409)
    return {"webhooks.name": "welcome", "workflows.name": "welcome"}


async def _template(admin: Caller, _inside: Connection, fresh: str) -> dict[str, str]:
    said = {"channel": "sms", "locales": {"default": {"parts": {"body": "hello {{ name }}"}}}}
    assert admin.call("PUT", f"/templates/{fresh}", said).status == 201
    return {"templates.name": fresh}


async def _key(admin: Caller, _inside: Connection, fresh: str) -> dict[str, str]:
    key = {"name": fresh, "role": "workerService", "reason": "a test"}
    assert admin.post("/keys", key).status == 201
    return {"keys.name": fresh}


async def _pause(admin: Caller, _inside: Connection, fresh: str) -> dict[str, str]:
    pause = admin.post("/pauses", {"scope": "template", "name": fresh, "reason": "a test"}).json["id"]
    return {"pause_id": str(pause)}


async def _schedule(admin: Caller, _inside: Connection, fresh: str) -> dict[str, str]:
    assert admin.call("PUT", f"/schedules/{fresh}", {"workflow": "welcome", "cron": "0 8 31 1 *"}).status == 201
    return {"schedules.name": fresh}


async def _object(admin: Caller, _inside: Connection, fresh: str) -> dict[str, str]:
    file = {"content": "YWJj", "content_type": "application/pdf"}
    assert admin.call("PUT", f"/objects/{fresh}", file).status == 201
    return {"objects.name": fresh}


async def _rule(admin: Caller, _inside: Connection, fresh: str) -> dict[str, str]:
    rule, trigger = f"lead_welcome/sms/a_{fresh[:20]}", f"t_{fresh}"
    assert admin.call("PUT", f"/rules/{quote(rule, '')}", {"steps": []}).status in (200, 201)
    assert admin.call("PUT", f"/triggers/{trigger}", {"variables": []}).status == 201
    event = admin.post("/events", {"trigger": "lead_welcome"}).json["decisions"][0]["event_id"]
    return {"rules.name": rule, "triggers.name": trigger, "event_id": str(event)}


async def _quiet_hours(admin: Caller, inside: Connection, _fresh: str) -> dict[str, str]:
    # Channels are configured, so that those of elsewhere have the same names.
    await inside.execute("DELETE FROM dispatcher.quiet_hours WHERE (tenant_id, workspace_id) <> ('default', 'default')")
    night = {"quiet": [{"from": "21:00", "to": "08:00"}]}
    assert admin.call("PUT", "/quiet-hours/social", night).status in (200, 201)
    return {"quiet-hours.name": "social"}


async def _cap(admin: Caller, inside: Connection, fresh: str) -> dict[str, str]:
    # A workspace may have only a few.
    await inside.execute("DELETE FROM dispatcher.caps")
    cap = {"messages": 3, "period": "366d", "channels": ["sms"]}
    assert admin.call("PUT", f"/caps/{fresh}", cap).status == 201
    return {"caps.name": fresh}


async def _contact(admin: Caller, _inside: Connection, fresh: str) -> dict[str, str]:
    assert admin.call("PUT", f"/contacts/{fresh}", {"name": "of-the-matrix"}).status == 201
    return {"key": fresh}


async def _campaign(admin: Caller, inside: Connection, fresh: str) -> dict[str, str]:
    await _contact(admin, inside, f"c-{fresh}")
    text = {"channel": "sms", "locales": {"default": {"parts": {"body": "hello"}}}, "publish": True}
    assert admin.call("PUT", f"/templates/{fresh}.sent", text).status == 201
    campaign = {"channel": "sms", "template": f"{fresh}.sent", "audience": {"contacts": [f"c-{fresh}"]}}
    assert admin.call("PUT", f"/campaigns/{fresh}", campaign).status == 201
    deployed = admin.post(f"/campaigns/{fresh}/deploy", {"scheduled_for": LATER}).json["run_id"]
    return {"campaigns.name": fresh, "campaign_run_id": str(deployed)}


async def _erasure(admin: Caller, _inside: Connection, _fresh: str) -> dict[str, str]:
    erased = {"address": "nobody@example.org", "reason": "of-the-matrix"}
    return {"erasure_id": str(admin.post("/erasures", erased).json["id"])}


async def _sequence(admin: Caller, inside: Connection, fresh: str) -> dict[str, str]:
    """A sequence, an enrolment in it, and the contact of the examples."""
    await _contact(admin, inside, f"s-{fresh}")
    assert admin.call("PUT", "/contacts/customer-17", {"name": "of-the-matrix"}).status in (200, 201)
    step = {"dayOffset": 3, "stepOrder": 1, "channel": "sms", "content": "hello"}
    made = admin.call("PUT", f"/sequences/{fresh}", {"steps": [step]})
    assert made.status == 201, made
    assert admin.call("POST", f"/sequences/{fresh}/publish").status == 200
    enrolled = admin.post(f"/sequences/{fresh}/enrolments", {"contactId": f"s-{fresh}"})
    return {
        "sequences.name": fresh,
        "step": str(made.json["steps"][0]["id"]),
        "enrolment_id": str(enrolled.json["id"]),
    }


async def _dead_job(_admin: Caller, inside: Connection, _fresh: str) -> dict[str, str]:
    return {"job_id": str(await dead_job(inside))}


# What makes things, and what stands for them.
MAKERS: dict[Callable[[Caller, Connection, str], Awaitable[dict[str, str]]], set[str]] = {
    _delivery: {"delivery_id", "captured_id"},
    _run: {"run_id"},
    _welcome: {"webhooks.name", "workflows.name"},
    _template: {"templates.name"},
    _key: {"keys.name"},
    _pause: {"pause_id"},
    _schedule: {"schedules.name"},
    _object: {"objects.name"},
    _rule: {"rules.name", "triggers.name", "event_id"},
    _quiet_hours: {"quiet-hours.name"},
    _cap: {"caps.name"},
    _contact: {"key"},
    _campaign: {"campaigns.name", "campaign_run_id"},
    _erasure: {"erasure_id"},
    _sequence: {"sequences.name", "step", "enrolment_id"},
    _dead_job: {"job_id"},
}


# There are no cells here.
OF_CELLS = ("listCells", "getCellDirectory")


def test_every_endpoint_is_about_what_was_agreed_upon() -> None:
    assert {one.operation: one.right and one.right.value for one in ENDPOINTS} == ABOUT
    assert set(ABOUT.values()) == {*(right.value for right in Right), None}


@pytest.mark.parametrize("one", ENDPOINTS, ids=lambda one: one.operation)
async def test_requests_are_allowed_by_the_rights_of_their_key(
    one: Endpoint, admin: Caller, inside: Connection, keys: dict[str, str], home: dict[str, str]
) -> None:
    names = home | await _names(admin, inside, one)
    for role, rights in AGREED.items():
        # What one of them has deleted is not there for the next.
        names |= await _names(admin, inside, one) if one.method == "DELETE" else {}
        answer = _call(Caller(admin.program, keys[role]), one, names)
        if ABOUT[one.operation] in (None, *rights):
            assert answer.status not in (401, 403, 500), (role, answer)
            assert (answer.status == 404) == (one.operation in OF_CELLS), (role, answer)
        else:
            assert answer.status == 403, (role, answer)
    assert _call(Caller(admin.program, None), one, names).status == 401


@pytest.mark.parametrize("one", ENDPOINTS, ids=lambda one: one.operation)
async def test_things_of_another_workspace_do_not_exist(
    one: Endpoint, admin: Caller, inside: Connection, keys: dict[str, str], home: dict[str, str]
) -> None:
    names = home | await _names(admin, inside, one)
    before = await _state(inside)
    for place in FOREIGN:
        answer = _call(Caller(admin.program, keys["/".join(place)]), one, names)
        assert b"+4917012345" not in answer.body
        assert b"of-the-matrix" not in answer.body
        if one.enveloped:
            assert (answer.status, answer.json["error"][:20]) == (400, "Workflow not found: "), answer
        elif one.method != "PUT" and (one.names or one.operation.endswith("ByKey")):
            assert answer.status == 404, answer
        elif one.operation == "getOwnKey":
            assert (answer.json["tenant_id"], answer.json["workspace_id"]) == place
        elif one.method == "GET":
            assert names["templates.name"].encode() not in answer.body
            here = {"deliveries": "delivery_id", "runs": "run_id", "campaign-runs": "campaign_run_id"}.get(one.tag)
            assert here is None or names[here] not in {
                str(row.get("id", row.get("execution_id"))) for row in _listed(answer)
            }
    assert await _state(inside) == before


@pytest.mark.parametrize("one", [one for one in ENDPOINTS if one.method == "POST"], ids=lambda one: one.operation)
async def test_every_post_is_done_once_under_its_key(
    one: Endpoint, admin: Caller, inside: Connection, home: dict[str, str]
) -> None:
    names = home | await _names(admin, inside, one)
    fresh, spent = ([("idempotency-key", uuid4().hex)] for _ in range(2))
    assert admin.call("POST", "/suppressions/check", {"address": "x@example.org"}, spent).status == 200
    assert _call(admin, one, names, spent).status == 422
    first, again = (_call(admin, one, names, fresh) for _ in range(2))
    if first.status >= 400:
        assert "idempotency-replayed" not in again.headers
    elif one.shown_once:
        assert again.status == 409
    else:
        assert (again.status, again.body, again.headers["idempotency-replayed"]) == (first.status, first.body, "true")


def _listed(answer: Answer) -> list[dict[str, object]]:
    """The rows of a page, whatever they are called."""
    (rows,) = (rows for name, rows in answer.json.items() if name != "next_cursor")
    return list(rows)


async def _state(inside: Connection) -> object:
    """What the endpoints could have changed: how what waits stands, and what was done by whom."""
    deliveries = await inside.fetch(
        """SELECT s.status, s.run_at FROM dispatcher.deliveries d JOIN dispatcher.delivery_state s USING (id)
            WHERE d.tenant_id = 'default' AND d.workspace_id = 'default' AND d.idempotency_key = $1""",
        WAITING,
    )
    events = "SELECT run_id, event FROM dispatcher.run_entries WHERE event = ANY ($1) ORDER BY run_id, number"
    acted = await inside.fetch(events, ["paused", "resumed", "cancelled", "replayed"])
    here = [await inside.fetch(f"SELECT {rows} {_HERE}") for rows in ROWS]
    return [deliveries, acted, await inside.fetch("SELECT * FROM dispatcher.operator_actions ORDER BY id"), here]
