"""The clauses that the HTTP API has to meet as well, each through a real socket."""

from datetime import UTC, datetime, timedelta
from types import NoneType
from typing import Any

from tests.conformance.flows import put
from tests.conformance.outbox import Outbox
from tests.conformance.test_outage import no_new_connections
from tests.support import flows
from tests.support.caller import Caller, delivery, make_key
from tests.support.program import Program
from tests.support.scene import Connection

UNKNOWN = {"DISPATCHER_CHANNELS__SMS__FAULTS__UNKNOWN": "1.0"}
LATER = "2040-01-01T00:00:00Z"
FOREIGN = (("acme", "default"), ("default", "other"))
WHY = {"reason": "looked it up"}


async def test_OP_02_a_key_is_of_a_workspace_and_a_role_and_kept_as_its_hash(
    program: Program, connection: Connection
) -> None:
    await program.start()
    admin, operator = (Caller(program, make_key(program, role)) for role in ("systemAdmin", "triggerOperator"))
    foreign = Caller(program, make_key(program, tenant="acme"))
    number = admin.post("/deliveries", delivery("one", scheduled_for=LATER)).json["id"]
    assert admin.get(f"/deliveries/{number}").status == 200
    assert operator.get(f"/deliveries/{number}").status == 403
    assert foreign.get(f"/deliveries/{number}").status == 404
    assert Caller(program, None).get(f"/deliveries/{number}").status == 401
    kept = await connection.fetchval("SELECT string_agg(s::text, ' ') FROM dispatcher.api_secrets s")
    assert admin.key is not None
    assert admin.key.rpartition("_")[2] not in kept


async def test_OP_02_postgres_itself_keeps_workspaces_apart(program: Program, connection: Connection) -> None:
    """A request is made by a role that owns nothing and is bound to the workspace of its key."""
    await connection.execute(
        """CREATE FUNCTION public.who() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
               NEW.recipient := concat_ws(' ', current_user, current_setting('dispatcher.tenant', true),
                                          current_setting('dispatcher.workspace', true));
               RETURN NEW;
           END $$;
           CREATE TRIGGER who BEFORE INSERT ON dispatcher.deliveries FOR EACH ROW EXECUTE FUNCTION public.who()"""
    )
    await program.start()
    for tenant, workspace in (("default", "default"), *FOREIGN):
        caller = Caller(program, make_key(program, tenant=tenant, workspace=workspace))
        number = caller.post("/deliveries", delivery("one", scheduled_for=LATER)).json["id"]
        assert caller.get(f"/deliveries/{number}").json["recipient"] == f"dispatcher_tenant {tenant} {workspace}"
    # Whoever is bound to one of them sees that one, although nothing here says a word about tenants.
    async with connection.transaction():
        await connection.execute("SET LOCAL ROLE dispatcher_tenant; SET LOCAL dispatcher.tenant = 'acme'")
        assert await connection.fetchval("SELECT count(*) FROM dispatcher.deliveries") == 0
        await connection.execute("SET LOCAL dispatcher.workspace = 'default'")
        (found,) = await connection.fetch("SELECT tenant_id, workspace_id FROM dispatcher.deliveries")
        assert tuple(found) == FOREIGN[0]


async def test_OP_02_errors_are_problem_documents_and_the_api_describes_itself(program: Program) -> None:
    await program.start()
    admin = Caller(program, make_key(program))
    refused = admin.post("/deliveries", {"channel": "smoke"})
    assert (refused.status, refused.headers["content-type"]) == (400, "application/problem+json")
    assert {"$.channel", "$.idempotency_key", "$.recipient", "$.template"} <= set(refused.faults)
    assert "/deliveries" in admin.get("/openapi.json").json["paths"]
    assert "access-control-allow-origin" not in admin.get("/runs", origin="https://example.org").headers


async def test_OP_02_while_the_database_is_away_callers_are_told_to_come_again(
    program: Program, connection: Connection, server: str
) -> None:
    await program.start()
    admin = Caller(program, make_key(program))
    assert admin.post("/deliveries", delivery("before")).status == 201
    async with no_new_connections(connection, server):
        answer = admin.post("/deliveries", delivery("meanwhile"))
        assert (answer.status, answer.json["type"]) == (503, "urn:dispatcher:problem:unavailable")
        assert int(answer.headers["retry-after"]) > 0
    await program.until(lambda: admin.post("/deliveries", delivery("after")).status in (200, 201), "it is back")
    assert not program.events("api.failed")


async def test_OB_12_an_operator_resolves_held_deliveries(program: Program, outbox: Outbox) -> None:
    await program.start(**UNKNOWN)
    operator = Caller(program, make_key(program, "triggerOperator"))
    foreign, beside = (Caller(program, make_key(program, "systemAdmin", *place)) for place in FOREIGN)
    ids = await outbox.fill(3)
    for one in ids:
        await outbox.until_life(one, "held")
    first = operator.get("/held?limit=2").json
    second = operator.get(f"/held?limit=2&cursor={first['next_cursor']}").json
    assert sorted(one["id"] for one in (*first["held"], *second["held"])) == ids
    assert second["next_cursor"] is None
    assert foreign.get("/held").json["held"] == beside.get("/held").json["held"] == []

    def resolve(caller: Caller, one: int, settle_as: str) -> tuple[int, Any]:
        answer = caller.post(f"/held/{one}/resolve", WHY | {"settle_as": settle_as})
        return answer.status, answer.json.get("detail", answer.json.get("answer"))

    assert resolve(foreign, ids[0], "sent")[0] == 404
    assert resolve(operator, ids[0], "sent") == (200, "settled")
    assert resolve(operator, ids[1], "failed") == (200, "settled")
    assert resolve(operator, ids[0], "failed") == (409, f"delivery {ids[0]} is not held, it is sent")
    assert [(await outbox.row(one))["status"] for one in ids[:2]] == ["sent", "failed"]
    assert resolve(operator, ids[2], "requeue") == (200, "settled")
    await outbox.until_life(ids[2], "held")
    actor = await outbox.connection.fetchval("SELECT DISTINCT actor FROM dispatcher.operator_actions")
    assert actor.startswith("key triggerOperator.")


async def test_WF_18_dead_letters_are_listed_replayed_and_discarded(program: Program, outbox: Outbox) -> None:
    await program.start(DISPATCHER_CHANNELS__SMS__FAULTS__REFUSE="1.0")
    await flows.put(outbox.connection)
    operator = Caller(program, make_key(program, "triggerOperator"))
    foreign, beside = (Caller(program, make_key(program, "systemAdmin", *place)) for place in FOREIGN)
    first, second = await outbox.fill(2)
    run = operator.post("/workflows/welcome/triggers", {"idempotency_key": "dead"}).json["execution_id"]

    def dead(many: str, caller: Caller = operator) -> list[int]:
        return [one["id"] for one in caller.get(f"/dead-letters/{many}?limit=50").json["dead_letters"]]

    await program.until(lambda: dead("deliveries") == [second, first], "both deliveries are dead letters")
    await program.until(lambda: dead("runs") == [run], "the run is one")
    page = operator.get("/dead-letters/deliveries?limit=1").json
    rest = operator.get(f"/dead-letters/deliveries?limit=1&cursor={page['next_cursor']}").json
    assert [one["id"] for one in (*page["dead_letters"], *rest["dead_letters"])] == [second, first]
    assert operator.get("/dead-letters/deliveries?error=nonsense").json["dead_letters"] == []
    for elsewhere in (foreign, beside):
        assert dead("deliveries", elsewhere) == dead("runs", elsewhere) == []
    assert foreign.post(f"/dead-letters/deliveries/{first}/discard", WHY).status == 404
    assert operator.post(f"/dead-letters/deliveries/{first}/discard", WHY).json["answer"] == "discarded"
    assert operator.post(f"/dead-letters/deliveries/{first}/discard", WHY).status == 409
    assert operator.post(f"/dead-letters/deliveries/{second}/replay", WHY).json["answer"] == "reopened"
    assert operator.post(f"/dead-letters/runs/{run}/replay", WHY).json["answer"] == "replayed"

    def again() -> bool:
        return bool(operator.get(f"/runs/{run}").json["retry_count"] == 1 and dead("runs") == [run])

    await program.until(again, "the run has failed again")
    assert operator.post(f"/dead-letters/runs/{run}/discard", WHY).json["answer"] == "discarded"
    assert dead("runs") == []


async def test_OB_20_a_delivery_is_cancelled_or_moved_by_id_or_key(program: Program, outbox: Outbox) -> None:
    await program.start()
    admin = Caller(program, make_key(program))
    one = admin.post("/deliveries", delivery("one", scheduled_for=LATER)).json["id"]
    two = admin.post("/deliveries", delivery("two", scheduled_for=LATER)).json["id"]
    now = {"run_at": "2020-01-01T00:00:00Z"} | WHY
    assert admin.post("/deliveries/move", {"idempotency_key": "one"} | now).status == 200
    await outbox.until_life(one, "sent")
    assert admin.post(f"/deliveries/{two}/cancel", WHY).status == 200
    await outbox.until_life(two, "skipped")
    assert await outbox.captured(two) == []


# The older interface's record of a run: its names, and their types as JSON has them.
RECORD: dict[str, type | tuple[type, ...]] = {
    "id": str,
    "workflow_name": str,
    "workflow_version": int,
    "status": str,
    "current_step": int,
    "total_steps": int,
    "input_payload": dict,
    "context": dict,
    "error_message": (str, NoneType),
    "error_step": (str, NoneType),
    "retry_count": int,
    "created_at": str,
    "started_at": (str, NoneType),
    "completed_at": (str, NoneType),
    "correlation_id": (str, NoneType),
    "triggered_by": str,
}
STRICT = {
    "name": "strict",
    "required_fields": ["z_email", "a_name"],
    "steps": [
        {
            "name": "tell",
            "function": "send-email",
            "action": "send",
            "payload_template": {
                "subject": "{{ subject }}",
                "text": "{{ zone.name }} {{ a_name }} {% if b %}{{ c | default: d }}{% endif %}",
                "to_email": "{{ z_email }}",
            },
        },
        {
            "name": "then",
            "function": "slack",
            "action": "tell",
            "payload_template": {
                "message": "{{ a.b }} {{ subject }} {{ step_0_result.message_id }}",
                "channel": "{{ at }}",
            },
        },
    ],
}
READS = "subject, zone.name, b, c, d, a.b, at"


class Older:
    """The older interface, as one calls it."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def asked(self, action: str, status: int = 200, **payload: Any) -> Any:
        """Its answer as it is; of what was asked for rightly its data."""
        answer = self._caller.post("/workflow-enqueue", {"action": action, "payload": payload})
        assert answer.status == status
        assert answer.headers["content-type"] == "application/json"
        if status != 200:
            return answer.json
        assert answer.json.keys() == {"success", "data"}
        assert answer.json["success"] is True
        return answer.json["data"]

    def refused(self, action: str, **payload: Any) -> str:
        """Why it is refused; there is nothing else in the envelope."""
        answer = self.asked(action, 400, **payload)
        assert answer == {"success": False, "error": answer["error"]}
        return str(answer["error"])


async def test_WF_22_the_older_interface_answers_in_its_names_and_types(
    program: Program, connection: Connection
) -> None:
    await program.start()
    await flows.put(connection)
    operator = Caller(program, make_key(program, "triggerOperator"))
    told = operator.post("/workflows/welcome/triggers", {"input": {"a": 1}}).json
    assert (told["workflow_name"], told["status"], told["total_steps"]) == ("welcome", "queued", 2)
    older = Older(operator)
    enqueued = older.asked("enqueue", workflow="welcome", data={"a": 1}, correlation_id="c")
    run = enqueued["execution_id"]
    assert enqueued == {"execution_id": run, "workflow_name": "welcome", "status": "queued", "total_steps": 2}
    assert int(run) == told["execution_id"] + 1

    def status() -> Any:
        return older.asked("status", execution_id=run)

    await program.until(lambda: bool(status()["current_step"] == 1), "it waits at its delay")
    shown = status()
    assert list(shown) == list(RECORD)
    assert {name: shown[name] for name, kind in RECORD.items() if not isinstance(shown[name], kind)} == {}
    assert shown["id"] == run
    assert (shown["workflow_name"], shown["workflow_version"], shown["status"]) == ("welcome", 1, "running")
    assert (shown["total_steps"], shown["input_payload"], shown["correlation_id"]) == (2, {"a": 1}, "c")
    assert (shown["error_message"], shown["error_step"], shown["retry_count"]) == (None, None, 0)
    assert shown["context"]["step_0_result"]["status"] == "sent"
    assert shown["triggered_by"].startswith("key triggerOperator.")
    assert datetime.fromisoformat(shown["created_at"]) <= datetime.fromisoformat(shown["started_at"])
    assert shown["completed_at"] is None
    assert older.asked("status", execution_id=int(run)) == shown
    again = older.asked("enqueue", workflow="welcome", data={}, correlation_id="c")
    assert again == enqueued | {"status": "running", "message": "Workflow already exists (idempotent)"}
    assert operator.post(f"/runs/{run}/cancel", WHY).status == 200
    ended = older.asked("enqueue", workflow="welcome", data={}, correlation_id="c")
    assert (ended["execution_id"], ended["status"]) == (run, "cancelled")
    assert datetime.fromisoformat(status()["completed_at"]) >= datetime.fromisoformat(shown["started_at"])
    health = older.asked("health")
    assert health.keys() == {"status", "timestamp"}
    assert health["status"] == "healthy"
    assert abs(datetime.now(UTC) - datetime.fromisoformat(health["timestamp"])) < timedelta(minutes=1)


async def test_WF_06_the_older_interface_refuses_in_its_exact_words(program: Program, connection: Connection) -> None:
    await program.start()
    await put(connection, STRICT)
    await flows.put(connection, flows.plan(name="asleep"), active=False)
    operator = Caller(program, make_key(program, "triggerOperator"))
    older = Older(operator)
    assert (
        older.refused("enqueue", workflow="strict", data={"subject": 1}) == "Missing required fields: z_email, a_name"
    )
    required = {"z_email": "", "a_name": None}
    behind = "These placeholders exist in workflow steps but were not provided in data."
    assert (
        older.refused("enqueue", workflow="strict", data=required) == f"Missing template variables: {READS}. {behind}"
    )
    some = required | dict.fromkeys(("subject", "b", "c", "at")) | {"zone": {"name": ""}, "a": {}}
    assert older.refused("enqueue", workflow="strict", data=some) == f"Missing template variables: d, a.b. {behind}"
    for name in ("nobody", "asleep"):
        assert older.refused("enqueue", workflow=name, data={}) == f"Workflow not found: {name}"
    foreign = operator.post("/workflows/strict/triggers", {"input": some | {"d": 1, "a": {"b": 1}}}).json[
        "execution_id"
    ]
    elsewhere = Older(Caller(program, make_key(program, "triggerOperator", tenant="acme")))
    assert elsewhere.refused("status", execution_id=foreign) == f"Execution not found: {foreign}"
    for one in (10**15, str(10**15), "4a1f"):
        assert older.refused("status", execution_id=one) == f"Execution not found: {one}"
    assert older.refused("explode") == "Unknown action: explode"
    # Who may not ask is told so in the envelope, too.
    stranger = Caller(program, None).post("/workflow-enqueue", {"action": "health"})
    assert (stranger.status, stranger.json.keys()) == (401, {"success", "error"})


async def test_WF_06_the_native_endpoint_names_everything_that_is_missing_at_once(
    program: Program, connection: Connection
) -> None:
    await program.start()
    await put(connection, STRICT)
    operator = Caller(program, make_key(program, "triggerOperator"))
    refused = operator.post("/workflows/strict/triggers", {"input": {}})
    assert refused.status == 400
    assert refused.json["detail"] == f"Missing required fields: z_email, a_name; Missing template variables: {READS}"
    assert set(refused.faults) == {f"$.{name}" for name in ("z_email", "a_name", *READS.split(", "))}


async def test_WF_22_the_document_says_what_the_older_interface_takes_and_answers(program: Program) -> None:
    await program.start()
    described = Caller(program, None).get("/openapi.json").json
    one = described["paths"]["/workflow-enqueue"]["post"]
    schemas = described["components"]["schemas"]

    def read(schema: Any) -> Any:
        return schemas[schema["$ref"].rpartition("/")[2]]

    takes = {
        read(each)["properties"]["action"]["enum"][0]: read(each)
        for each in one["requestBody"]["content"]["application/json"]["schema"]["oneOf"]
    }
    assert takes.keys() == {"enqueue", "status", "health"}
    assert read(takes["enqueue"]["properties"]["payload"])["required"] == ["workflow", "data"]
    assert one["responses"].keys() >= {"200", "400", "401", "403", "503"}
    answers = one["responses"]["200"]["content"]["application/json"]["schema"]
    assert answers["required"] == ["success", "data"]
    assert list(RECORD) in [list(read(each)["properties"]) for each in answers["properties"]["data"]["anyOf"]]
    refused = read(one["responses"]["400"]["content"]["application/json"]["schema"])
    assert refused["properties"].keys() == {"success", "error"}
    assert "Missing template variables: x, y." in one["description"]
