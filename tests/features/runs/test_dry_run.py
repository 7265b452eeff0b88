"""Plans over HTTP: what a trigger would do, refused as the trigger is, and nothing of it done."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from dispatcher.plans.plan import TemplateUse
from tests.cli.test_workflows import counted
from tests.support import flows
from tests.support.caller import Answer, Caller, exact, make_key
from tests.support.scene import Connection

PLAN, TRIGGER = "/workflows/welcome/plan", "/workflows/welcome/triggers"
BOMB = "{% for i in (1..9999) %}{% for j in (1..9999) %}x{% endfor %}{% endfor %}"


def put_text(admin: Caller, name: str, body: str, *to: str) -> None:
    """Save a workflow that sends one text, and takes triggers."""
    node = {"id": "text", "type": "sms", "to": list(to), "body": body}
    definition = {"name": name, "entryNodeId": "text", "nodes": [node], "edges": []}
    assert admin.post("/workflows", {"workflows": [definition], "activate": True}).status == 200


def problem(answer: Answer) -> Mapping[str, Any]:
    """What is wrong, whichever request it was."""
    assert answer.status >= 400
    return {name: value for name, value in answer.json.items() if name not in ("instance", "request_id")}


async def test_a_plan_writes_nothing_but_the_answer_of_its_key(admin: Caller, inside: Connection) -> None:
    asked = {"input": {"name": "Ann"}, "idempotency_key": "planned"}
    first = admin.post(PLAN, asked)
    assert (first.status, first.json["version"], first.json["duplicate_of"], first.json["fails_at"]) == (
        200,
        1,
        None,
        None,
    )
    assert [(one["node"], one["kind"]) for one in first.json["steps"]] == [("mail", "send"), ("wait", "delay")]
    before = dict(await counted(admin.program.url))
    assert admin.post(PLAN, asked).status == 200
    assert dict(await counted(admin.program.url)) == before
    kept = admin.post(PLAN, asked, idempotency_key="asked-once")
    assert dict(await counted(admin.program.url)) == before | {"api_answers": before["api_answers"] + 1}
    again = admin.post(PLAN, asked, idempotency_key="asked-once")
    assert (again.body, again.headers["idempotency-replayed"]) == (kept.body, "true")
    assert admin.post(PLAN, {}, idempotency_key="asked-once").status == 422
    run = admin.post(TRIGGER, asked)
    assert run.status == 201
    # The key of a request is not that of a run.
    assert admin.post(PLAN, {}, idempotency_key="planned").json["duplicate_of"] is None
    duplicate = admin.post(PLAN, asked).json
    assert (duplicate["duplicate_of"], duplicate["steps"]) == (run.json["execution_id"], [])


async def test_it_is_refused_as_the_trigger_is(admin: Caller, inside: Connection) -> None:
    templates = [TemplateUse(node="mail", channel="sms", name="nowhere")]
    strict = flows.plan(name="picky", required=["order"], reads=[("customer", "email")], templates=templates)
    await flows.put(inside, strict)
    await flows.put(inside, flows.plan(name="resting"), active=False)
    bodies: list[object] = [
        {},
        {"input": {"customer": {}}},
        {"input": {"a": "\0"}},
        {"idempotency_key": "a", "correlation_id": "b"},
        {"inputs": {}},
    ]
    for name in ("picky", "resting", "nobody", "no%20name"):
        for body in bodies:
            refused = [admin.post(f"/workflows/{name}/{verb}", body) for verb in ("triggers", "plan")]
            assert problem(refused[1]) == problem(refused[0])
    assert {"$.order", "$.customer.email"} <= set(admin.post("/workflows/picky/plan", {}).faults)
    unknown = admin.post(PLAN, {"assume": {"nowhere": {}, "mail": {}}})
    assert unknown.faults == {"$.assume.nowhere": "welcome has no node nowhere"}
    manager = Caller(admin.program, make_key(admin.program, "workflowManager"))
    assert manager.post(PLAN, {}).status == 403
    assert Caller(admin.program, make_key(admin.program, "triggerOperator")).post(PLAN, {}).status == 200


async def test_a_dry_run_shows_messages_as_they_would_be_sent(admin: Caller) -> None:
    put_text(admin, "shown", "{{ price }} {{ name }}", "+491701", "+491702")
    barred = {"suppressions": [{"address": "+491702"}], "reason": "asked"}
    assert admin.post("/suppressions", barred).status == 200
    (step,) = admin.post("/workflows/shown/plan", exact({"input": {"price": 1.125, "name": "Ann"}})).json["steps"]
    first, second = step["messages"]
    assert first["error"] is None
    assert (first["parts"], first["bytes"], first["rendered"]) == ({"body": "1.125 Ann"}, 9, True)
    assert first["sms"] == {"encoding": "GSM-7", "segments": 1, "characters": 9}
    assert (first["skipped"], second["skipped"]) == (None, "suppressed: operator: asked")


async def test_a_bomb_is_an_error_of_its_message(admin: Caller) -> None:
    put_text(admin, "bomb", BOMB, "+491701")
    answer = admin.post("/workflows/bomb/plan", {})
    ((message,),) = (one["messages"] for one in answer.json["steps"])
    assert (answer.status, answer.json["fails_at"], message["parts"]) == (200, "text", {})
    assert "loop iteration limit reached" in message["error"]


@pytest.mark.parametrize("scope", [{"tenant": "acme"}, {"workspace": "other"}])
async def test_another_workspaces_workflow_is_not_found(
    admin: Caller, inside: Connection, scope: dict[str, str]
) -> None:
    theirs = Caller(admin.program, make_key(admin.program, **scope))
    answer = theirs.post(PLAN, {})
    assert (answer.status, json.loads(answer.body)["detail"]) == (404, "there is no workflow 'welcome'")
