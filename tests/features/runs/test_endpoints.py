"""Triggers and runs over HTTP, and the older interface: the same runs as through every other endpoint."""

from typing import Any

import pytest

from dispatcher.plans.plan import TemplateUse
from tests.support import flows
from tests.support.caller import Answer, Caller, exact
from tests.support.scene import Connection

WHY = {"reason": "in doubt"}
TRIGGER = "/workflows/welcome/triggers"


async def test_a_run_is_triggered_shown_and_logged(admin: Caller, inside: Connection) -> None:
    first = admin.post(TRIGGER, exact({"input": {"price": 1.125}, "correlation_id": "order-1"}))
    assert first.status == 201
    run = first.json.pop("execution_id")
    assert first.json == {
        "execution_id": run,
        "workflow_name": "welcome",
        "version": 1,
        "status": "queued",
        "total_steps": 2,
        "duplicate": False,
    }

    def waits() -> bool:
        return bool(admin.get(f"/runs/{run}").json["status"] == "waiting")

    await admin.program.until(waits, "it waits at its delay")
    shown = admin.get(f"/runs/{run}")
    assert b'"price": 1.1250' in shown.body
    assert (shown.json["current_steps"], shown.json["idempotency_key"]) == (["wait"], "order-1")
    assert shown.json["context"]["step_0_result"]["status"] == "sent"
    assert [one["status"] for one in shown.json["deliveries"]] == ["sent"]
    log = admin.get(f"/runs/{run}/log?limit=2").json
    more = admin.get(f"/runs/{run}/log?limit=2&cursor={log['next_cursor']}").json
    whole = admin.get(f"/runs/{run}/log").json
    assert [*log["entries"], *more["entries"]] == whole["entries"][:4]
    (found,) = admin.get("/runs?idempotency_key=order-1").json["runs"]
    assert found["execution_id"] == run


async def test_runs_are_listed_by_workflow_status_and_time(admin: Caller, inside: Connection) -> None:
    await flows.put(inside, flows.plan(name="rare"))
    run = admin.post("/workflows/rare/triggers", {}).json["execution_id"]
    assert admin.post(TRIGGER, {}).status == 201
    assert admin.post(f"/runs/{run}/cancel", WHY).status == 200

    def listed(query: str) -> list[int]:
        return [one["execution_id"] for one in admin.get(f"/runs?{query}").json["runs"]]

    assert listed("workflow=rare") == listed("workflow=rare&status=cancelled") == [run]
    assert listed("workflow=rare&since=2020-01-01T00:00:00Z") == [run]
    assert listed("workflow=rare&since=2040-01-01T00:00:00Z") == listed("workflow=rare&status=paused") == []
    assert run not in listed(f"before={run}")


async def test_a_key_starts_one_run_through_every_endpoint(admin: Caller, inside: Connection) -> None:
    first = admin.post(TRIGGER, {"idempotency_key": "one"})
    again = admin.post(TRIGGER, {"correlation_id": "one", "input": {"other": 1}})
    assert (first.status, again.status) == (201, 200)
    assert again.json == first.json | {"duplicate": True}
    row = await flows.trigger(inside, {}, "one")
    assert (row["execution_id"], row["duplicate"]) == (first.json["execution_id"], True)
    enqueued = _enqueue(admin, "enqueue", workflow="welcome", data={}, correlation_id="one")
    assert enqueued.json["data"]["execution_id"] == str(again.json["execution_id"])
    headed = [admin.post(TRIGGER, {}, idempotency_key="headed") for _ in range(2)]
    assert headed[0].json == headed[1].json
    assert (await flows.trigger(inside, {}, "headed"))["execution_id"] == headed[0].json["execution_id"]
    both = admin.post(TRIGGER, {"idempotency_key": "a", "correlation_id": "b"})
    assert list(both.faults) == ["$.correlation_id"]


async def test_everything_that_is_missing_is_named_at_once(admin: Caller, inside: Connection) -> None:
    strict = flows.plan(
        name="strict",
        required=["order"],
        reads=[("customer", "email")],
        templates=[TemplateUse(node="mail", channel="sms", name="nowhere")],
    )
    await flows.put(inside, strict)
    answer = admin.post("/workflows/strict/triggers", {"input": {"customer": {}}})
    assert answer.status == 400
    assert "Missing required fields: order" in answer.json["detail"]
    assert "Missing template variables: customer.email" in answer.json["detail"]
    assert {"$.order", "$.customer.email"} <= set(answer.faults)


async def test_a_trigger_of_an_inactive_workflow_is_refused(admin: Caller, inside: Connection) -> None:
    await flows.put(inside, flows.plan(name="asleep"), active=False)
    assert admin.post("/workflows/asleep/triggers", {}).status == 409
    assert admin.post("/workflows/nobody/triggers", {}).status == 404
    assert admin.post("/workflows/%00/triggers", {}).status in (400, 404)


async def test_a_run_is_paused_resumed_signalled_and_cancelled(admin: Caller, inside: Connection) -> None:
    run = admin.post(TRIGGER, {}).json["execution_id"]

    def act(verb: str, body: object = WHY) -> tuple[int, Any]:
        answer = admin.post(f"/runs/{run}/{verb}", body)
        return answer.status, answer.json.get("detail", answer.json["answer"])

    def waits() -> bool:
        return bool(admin.get(f"/runs/{run}").json["status"] == "waiting")

    await admin.program.until(waits, "it waits at its delay")
    assert act("pause") == (200, "done")
    assert act("pause") == (409, f"run {run} is paused already")
    assert admin.get("/runs?status=paused").json["runs"][0]["execution_id"] == run
    assert act("resume") == (200, "done")
    assert act("signal", exact({"event": "paid", "data": {"amount": 1.125}})) == (200, "accepted")
    kept = "SELECT data::text FROM dispatcher.signals WHERE run_id = $1"
    assert await inside.fetchval(kept, run) == '{"amount": 1.1250}'
    await admin.program.until(waits, "it waits again, after it was resumed and heard the signal")
    assert admin.post(f"/runs/{run}/replay", WHY).json["answer"] == "waiting"
    assert act("cancel") == (200, "cancelled")
    assert act("pause")[0] == 409
    assert act("signal", {"event": "paid"})[0] == 409
    entries = admin.get(f"/runs/{run}/log").json["entries"]
    assert {"paused", "resumed", "cancelled"} <= {one["event"] for one in entries}
    some = admin.get(f"/runs/{run}/progress?first=1&limit=1").json
    assert (some["entries"], some["more"], some["run"]["status"]) == (entries[1:2], True, "cancelled")
    rest = admin.get(f"/runs/{run}/progress?first=2").json
    assert (rest["entries"], rest["more"]) == (entries[2:], False)


async def test_a_failed_run_is_replayed(admin: Caller, inside: Connection) -> None:
    run = admin.post(TRIGGER, {}).json["execution_id"]

    def waits() -> bool:
        return bool(admin.get(f"/runs/{run}").json["status"] == "waiting")

    await admin.program.until(waits, "it waits at its delay")
    await flows.fail(inside, run, "wait")
    assert admin.get(f"/runs/{run}").json["error_step"] == "wait"
    assert admin.post(f"/runs/{run}/replay", WHY).json["answer"] == "replayed"
    await admin.program.until(waits, "it waits again")
    assert admin.get(f"/runs/{run}").json["retry_count"] == 1


def _enqueue(caller: Caller, action: str, **payload: object) -> Answer:
    return caller.post("/workflow-enqueue", {"action": action, "payload": payload})


async def test_the_older_interface_takes_numbers_as_they_are_written(admin: Caller, inside: Connection) -> None:
    payload = {"workflow": "welcome", "data": {"price": 1.125}}
    enqueued = admin.post("/workflow-enqueue", exact({"action": "enqueue", "payload": payload}))
    run = enqueued.json["data"]["execution_id"]
    for execution_id in (run, int(run)):
        status = _enqueue(admin, "status", execution_id=execution_id)
        assert status.json["data"]["id"] == run
        assert b'"price": 1.1250' in status.body


async def test_the_older_interface_starts_one_run_a_key_by_its_header_too(admin: Caller, inside: Connection) -> None:
    body = {"action": "enqueue", "payload": {"workflow": "welcome", "data": {}, "correlation_id": ""}}
    first, again = (admin.post("/workflow-enqueue", body, idempotency_key="headed-older") for _ in range(2))
    assert first.json == again.json
    other = admin.post(TRIGGER, {"idempotency_key": "headed-older"}).json
    assert (str(other["execution_id"]), other["duplicate"]) == (first.json["data"]["execution_id"], True)
    # An empty one is none.
    assert admin.post("/workflow-enqueue", body).json["data"]["execution_id"] != str(other["execution_id"])


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "$.action: is required"),
        ({"action": "enqueue"}, "$.payload.workflow: is required; $.payload.data: is required"),
        ({"action": "enqueue", "payload": {"workflow": "x", "data": 7}}, "$.payload.data: "),
        (
            {"action": "enqueue", "payload": {"workflow": "welcome", "data": {}, "workflow_name": "x"}},
            "$.payload.workflow_name: unknown field",
        ),
        ({"action": "status"}, "$.payload.execution_id: is required"),
        ({"action": "status", "payload": {"execution_id": None}}, "$.payload.execution_id: "),
        ({"action": "x" * 1_000}, "Unknown action: " + "x" * 100 + "…"),
    ],
)
async def test_the_older_interface_says_what_is_wrong_in_its_envelope(
    admin: Caller, inside: Connection, body: dict[str, Any], words: str
) -> None:
    answer = admin.post("/workflow-enqueue", body)
    assert (answer.status, answer.json.keys(), answer.json["success"]) == (400, {"success", "error"}, False)
    assert words in answer.json["error"]


@pytest.mark.parametrize("execution_id", [10**15, 10**40, "10" * 200, "x", "", "-1", "1.0", "٣", 0])
async def test_an_invalid_run_id_is_not_found(admin: Caller, inside: Connection, execution_id: int | str) -> None:
    answer = _enqueue(admin, "status", execution_id=execution_id)
    assert answer.status == 400
    assert answer.json["error"].startswith("Execution not found: ")
