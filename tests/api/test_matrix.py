"""The matrix: every endpoint with every role, and with a key of another tenant and of another workspace."""

import re

import pytest

from dispatcher.api.endpoints import Endpoint
from dispatcher.api.interface import ENDPOINTS
from dispatcher.domain.roles import Right, Role
from tests.api.caller import Answer, Caller, delivery, make_key
from tests.program import Program
from tests.store.scene import Connection
from tests.unit.domain.test_roles import AGREED

# What the requirements say that each endpoint is about; a new one has to be put here. None: any key may.
ABOUT: dict[str, str | None] = {
    "createDelivery": "deliveries",
    "createDeliveries": "deliveries",
    "sendLines": "deliveries",
    "listDeliveries": "deliveries",
    "getDelivery": "deliveries",
    "getDeliveryMail": "deliveries",
    "retryDelivery": "deliveries",
    "cancelDelivery": "deliveries",
    "moveDelivery": "deliveries",
    "cancelDeliveryByKey": "deliveries",
    "moveDeliveryByKey": "deliveries",
    "listHeld": "held",
    "resolveHeld": "held",
    "listDeadRuns": "dead_letters",
    "listDeadDeliveries": "dead_letters",
    "replayDeadRun": "dead_letters",
    "discardDeadRun": "dead_letters",
    "replayDeadDelivery": "dead_letters",
    "discardDeadDelivery": "dead_letters",
    "listWorkflows": "workflows",
    "getWorkflow": "workflows",
    "putWorkflow": "workflows",
    "putWorkflows": "workflows",
    "compareWorkflows": "workflows",
    "deleteWorkflow": "workflows",
    "activateWorkflow": "workflows",
    "deactivateWorkflow": "workflows",
    "triggerWorkflow": "triggers",
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
    "getOwnKey": None,
}
FOREIGN = (("acme", "default"), ("default", "other"))
WAITING = "waits"
LATER = "2040-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def keys(serving: Program) -> dict[str, str]:
    """A key of each role, and administrators of elsewhere."""
    made = {role.value: make_key(serving, role.value) for role in Role}
    return made | {f"{t}/{w}": make_key(serving, "systemAdmin", t, w) for t, w in FOREIGN}


def _call(caller: Caller, one: Endpoint, names: dict[str, str]) -> Answer:
    path = re.sub(r"\{(\w+)\}", lambda match: names[match[1]], one.path)
    if one.example is None:
        return caller.call(one.method, path)
    own = {"idempotency_key": WAITING} if one.operation.endswith("ByKey") else {}
    return caller.call(one.method, path, dict(one.example) | own)


async def _names(admin: Caller, inside: Connection) -> dict[str, str]:
    """A delivery that waits and a run of the default workspace."""
    waiting = admin.post("/deliveries", delivery(WAITING, scheduled_for=LATER)).json["id"]
    run = admin.post("/workflows/welcome/triggers", {"idempotency_key": "of-the-matrix"}).json["execution_id"]
    return {"delivery_id": str(waiting), "run_id": str(run), "name": "welcome"}


def test_every_endpoint_is_about_what_was_agreed_upon() -> None:
    assert {one.operation: one.right and one.right.value for one in ENDPOINTS} == ABOUT
    assert set(ABOUT.values()) <= {*(right.value for right in Right), None}


@pytest.mark.parametrize("one", ENDPOINTS, ids=lambda one: one.operation)
async def test_who_may_is_let_through_and_who_may_not_is_not(
    one: Endpoint, admin: Caller, inside: Connection, keys: dict[str, str]
) -> None:
    names = await _names(admin, inside)
    for role, rights in AGREED.items():
        answer = _call(Caller(admin.program, keys[role]), one, names)
        if ABOUT[one.operation] in (None, *rights):
            assert answer.status not in (401, 403, 404, 500) or one.enveloped, (role, answer)
        else:
            assert answer.status == 403, (role, answer)
    assert _call(Caller(admin.program, None), one, names).status == 401


@pytest.mark.parametrize("one", ENDPOINTS, ids=lambda one: one.operation)
async def test_what_is_elsewhere_is_not_there(
    one: Endpoint, admin: Caller, inside: Connection, keys: dict[str, str]
) -> None:
    names = await _names(admin, inside)
    before = await _state(inside)
    for place in FOREIGN:
        answer = _call(Caller(admin.program, keys["/".join(place)]), one, names)
        assert b"+4917012345" not in answer.body
        assert b"of-the-matrix" not in answer.body
        if one.method != "PUT" and (one.names or one.operation.endswith("ByKey") or one.enveloped):
            assert answer.status == 404, answer
        elif one.operation == "getOwnKey":
            assert (answer.json["tenant_id"], answer.json["workspace_id"]) == place
        elif one.method == "GET":
            assert not {names["delivery_id"], names["run_id"]} & {
                str(row.get("id", row.get("execution_id", ""))) for row in _listed(answer)
            }
    assert await _state(inside) == before


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
    return [deliveries, acted, await inside.fetch("SELECT * FROM dispatcher.operator_actions ORDER BY id")]
