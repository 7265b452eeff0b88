"""WF-06, WF-07 and OP-01: what a trigger checks, what its key is good for, and the transaction that it belongs to."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.conformance.flows import Flows, line, node
from tests.support.scene import Connection
from tests.support.waits import until_blocked

GREETING = line("greeting", node("hello", "sms", body="Hello {{ name }}"))
TEMPLATE = "---\nchannel: sms\n---\n--- body ---\nHello {{ guest.name }}{{ step_0_error }}\n"


async def enqueue(connection: Connection, key: str) -> Any:
    """A delivery that is written by the function."""
    asked = """SELECT * FROM dispatcher.enqueue_delivery(channel => 'sms', recipient => '+4917012345',
                      idempotency_key => $1, template => '{"body": "hello"}')"""
    return await connection.fetchrow(asked, key)


async def refusal(flows: Flows, name: str, given: Mapping[str, Any]) -> tuple[str, list[dict[str, str]]]:
    """The words of a refusal and its list of faults; no run is left behind."""
    before = await flows.connection.fetchval("SELECT count(*) FROM dispatcher.runs")
    with pytest.raises(asyncpg.PostgresError) as refused:
        await flows.trigger(name, given)
    assert await flows.connection.fetchval("SELECT count(*) FROM dispatcher.runs") == before
    said = refused.value.as_dict()
    return said["message"], json.loads(said["detail"])


@asynccontextmanager
async def connected(flows: Flows, count: int) -> AsyncIterator[list[Connection]]:
    """So many further connections."""
    async with AsyncExitStack() as stack:
        opened = [await asyncpg.connect(flows.program.url) for _ in range(count)]
        for one in opened:
            stack.push_async_callback(one.close)
        yield opened


# WF-06


async def test_WF_06_a_trigger_checks_that_its_workflow_exists_and_is_active(flows: Flows) -> None:
    assert await refusal(flows, "no-such", {}) == (
        "there is no workflow 'no-such'",
        [{"path": "$.workflow", "words": "there is no such workflow"}],
    )
    await flows.put(line("asleep", node("hello", "sms")))
    await flows.connection.execute(
        "SELECT dispatcher.set_workflow_active('default', 'default', 'asleep', false, 'ann')"
    )
    assert (await refusal(flows, "asleep", {}))[0] == "the workflow 'asleep' is not active"
    await flows.connection.execute("SELECT dispatcher.set_workflow_active('default', 'default', 'asleep', true, 'ann')")
    await flows.until_status(await flows.trigger("asleep"), "completed")


# One node of every kind that reads something, each something of its own.
READER = {
    "name": "reader",
    "entryNodeId": "mail",
    "required_fields": ["order_id", "customer"],
    "nodes": [
        node("mail", "email", to="{{ customer.email }}", subject="{{ order.no }}", text="{{ order.lines[0].sku }}"),
        node("text", "sms", to="{{ phone }}", body="{{ own }} {{ mail.status }}", variables={"own": "{{ shop.name }}"}),
        node("call", "function", function="bill", action="go", payload={"deep": [{"er": "{{ bill_to }}"}]}),
        node("later", "delay", until="{{ at }}"),
        node("which", "branch"),
        node("several", "digest", key="{{ group }}", window="1s"),
        node("stored", "sms", template="{{ template_id }}", locale="{{ locale }}"),
    ],
    "edges": [
        {"from": "mail", "to": "text"},
        {"from": "text", "to": "call"},
        {"from": "call", "to": "later"},
        {"from": "later", "to": "which"},
        {"from": "which", "to": "several", "condition": "tier == 'gold' and call.ok"},
        {"from": "several", "to": "stored"},
    ],
}
# In order of appearance.
READS = "customer.email, order.no, order.lines[0].sku, phone, shop.name, bill_to, at, group, template_id, locale, tier"


async def test_WF_06_one_answer_names_everything_that_any_node_reads_and_that_is_missing(flows: Flows) -> None:
    """What a node adds by itself (own), and what nodes give (mail, call), is nobody's to bring."""
    await flows.put(READER, functions=["bill"])
    words, faults = await refusal(flows, "reader", {})
    assert words == f"Missing required fields: order_id, customer; Missing template variables: {READS}"
    assert {fault["path"] for fault in faults} == {f"$.{one}" for one in ["customer", "order_id", *READS.split(", ")]}
    given = {"customer": {"email": "ann@example.org"}, "order": {"lines": [{"sku": 1}]}, "order_id": 7}
    words, _ = await refusal(flows, "reader", given)
    left = [one for one in READS.split(", ") if one not in ("customer.email", "order.lines[0].sku")]
    assert words == f"Missing template variables: {', '.join(left)}"


async def test_WF_06_null_and_the_empty_string_count_as_present(flows: Flows) -> None:
    hello = node("hello", "sms", body="[{{ name }}{{ a.b }}]")
    run = await flows.ended(line("nothing", hello, required_fields=["name", "a"]), {"name": "", "a": {"b": None}})
    assert await flows.said(run) == ["[]"]
    assert (await refusal(flows, "nothing", {"a": {}}))[0] == (
        "Missing required fields: name; Missing template variables: a.b"
    )


async def test_WF_06_what_a_step_before_provides_is_exempt_and_empty_where_it_is_absent(flows: Flows) -> None:
    body = "[{{ step_0_error }}{{ step_0_result.a.b }}{% if step_0_error %}bad{% endif %}] {{ step_0_result.status }}"
    definition = line("steps", node("first", "sms"), node("second", "sms", body=body))
    assert (await flows.said(await flows.ended(definition)))[1] == "[] sent"


async def test_WF_06_no_other_name_is_exempt_whatever_it_begins_with(flows: Flows, tmp_path: Path) -> None:
    await flows.put(line("own", node("first", "sms"), node("second", "sms", body="{{ step_own }}{{ step_0_results }}")))
    assert (await refusal(flows, "own", {}))[0] == "Missing template variables: step_own, step_0_results"
    # What stored templates read by number has to come before, too.
    (tmp_path / "late.liquid").write_text(
        "---\nchannel: email\n---\n--- subject ---\n{{ step_0_error }}\n--- text ---\n1\n"
    )
    saved = flows.program.run("templates", "sync", str(tmp_path), "--publish")
    assert saved.returncode == 0, saved.stderr
    payload = {"template_id": "late", "to_email": "ann@example.org"}
    step = {"name": "mail", "function": "send-email", "action": "send", "payload_template": payload}
    await flows.put({"name": "late", "steps": [step, step]})
    assert (await refusal(flows, "late", {}))[0] == "Missing template variables: step_0_error"
    await flows.put(
        {"name": "late", "steps": [step | {"payload_template": {**payload, "variables": {"step_0_error": 1}}}]}
    )
    await flows.until_status(await flows.trigger("late"), "completed")


# Which of two steps reads what, and what is wrong with that; nothing is wrong with the last one.
MISREAD = (
    (0, "{{ step_0_result.message_id }}", "step_0_result: step 0 (first) is this step itself"),
    (0, "{{ step_1_result.message_id }}", "step_1_result: step 1 (second) does not come before this one"),
    (0, "{% if a %}{{ step_1_error }}{% endif %}", "step_1_error: step 1 (second) does not come before this one"),
    (1, "{{ step_2_result.message_id }}", "step_2_result: there is no step 2"),
    (1, "{{ a[step_2_result.b].c }}", "step_2_result: there is no step 2"),
    (1, "{% for x in step_2_result.all %}{{ x }}{% endfor %}", "step_2_result: there is no step 2"),
    (1, "{% if step_9_error == 'x' %}1{% endif %}", "step_9_error: there is no step 9"),
    (1, "{{ step_0_result.message_id }}{{ step_0_error }}", None),
)


async def test_WF_06_a_definition_that_reads_of_a_step_that_does_not_come_before_is_refused(
    flows: Flows, tmp_path: Path
) -> None:
    for number, (place, text, _) in enumerate(MISREAD):
        texts = ["text", "text"]
        texts[place] = text
        steps = [
            {"name": name, "function": "bill", "action": "x", "payload_template": {"of": [{"id": one}]}}
            for name, one in zip(("first", "second"), texts, strict=True)
        ]
        (tmp_path / f"{number}.json").write_text(json.dumps({"name": f"misread-{number}", "steps": steps}))
    files = sorted(map(str, tmp_path.iterdir()))
    done = flows.program.run(
        "--json", "workflows", "put", *files, DISPATCHER_FUNCTIONS__BILL__URL="https://bill.example.org/"
    )
    assert done.returncode == 3, done.stdout
    found = {fault["path"]: fault["message"] for fault in json.loads(done.stderr)["faults"]}
    expected = {
        f"{file}: $.steps[{place}].payload_template.of[0].id": words
        for file, (place, _, words) in zip(files, MISREAD, strict=True)
        if words is not None
    }
    assert found.keys() == expected.keys()
    for path, words in expected.items():
        assert found[path].startswith(words)


async def test_WF_06_any_other_absent_name_is_an_error_that_names_it(flows: Flows) -> None:
    """A node's result is exempt at the trigger; what it did not give is missed when it is read."""
    paid = node("paid", "wait", event="paid")
    await flows.put(line("absent", paid, node("hello", "sms", body="{{ paid.by.name }}")))
    run = await flows.trigger("absent")
    await flows.signal(run, "paid", {"amount": 1})
    await flows.until_status(run, "failed")
    row = await flows.row(run)
    assert row["error_node"] == "hello"
    assert "paid.by.name" in row["error"]


async def test_WF_06_a_template_that_a_variable_names_is_looked_up_at_the_trigger(flows: Flows, tmp_path: Path) -> None:
    (tmp_path / "guest.liquid").write_text(TEMPLATE)
    saved = flows.program.run("templates", "sync", str(tmp_path), "--publish")
    assert saved.returncode == 0, saved.stderr
    await flows.put(line("named", node("hello", "sms", template="{{ mail.template_id }}")))
    assert (await refusal(flows, "named", {}))[0] == "Missing template variables: mail.template_id"
    for name in ("nobody", "", None):
        words, faults = await refusal(flows, "named", {"mail": {"template_id": name}})
        assert [fault["path"] for fault in faults] == ["$.mail.template_id"]
        assert words == faults[0]["words"]
    words, faults = await refusal(flows, "named", {"mail": {"template_id": "guest"}})
    assert words == "Missing template variables: guest.name"
    assert "'guest'" in faults[0]["words"]
    run = await flows.trigger("named", {"mail": {"template_id": "guest"}, "guest": {"name": "Ann"}})
    await flows.until_status(run, "completed")
    assert await flows.said(run) == ["Hello Ann"]


async def test_WF_06_the_command_line_refuses_in_the_same_words(flows: Flows) -> None:
    await flows.put(GREETING | {"name": "refused", "required_fields": ["order"]})
    done = flows.program.run("--json", "trigger", "refused")
    assert done.returncode == 3
    (said,) = map(json.loads, done.stderr.splitlines())
    assert said["message"] == "Missing required fields: order; Missing template variables: name"
    assert [fault["path"] for fault in said["faults"]] == ["$.order", "$.name"]
    assert await flows.connection.fetchval("SELECT count(*) FROM dispatcher.runs WHERE workflow = 'refused'") == 0


# WF-07


async def test_WF_07_a_duplicate_trigger_returns_the_first_run(flows: Flows) -> None:
    """Unchanged, whatever is asked for now, and whatever has become of the workflow since."""
    await flows.put(GREETING | {"name": "twice"})
    first = await flows.answer("twice", {"name": "Ann"}, idempotency_key="k")
    assert first["duplicate"] is False
    await flows.until_status(first["execution_id"], "completed")
    before = await flows.row(first["execution_id"])
    await flows.put(line("twice", node("hello", "sms", body="Goodbye {{ nobody }}")))
    await flows.connection.execute("SELECT dispatcher.set_workflow_active('default', 'default', 'twice', false, 'ann')")
    for given in ({"name": "Bob"}, {}):
        again = await flows.answer("twice", given, idempotency_key="k")
        assert dict(again) == dict(first) | {"duplicate": True}
    await flows.a_round()
    assert await flows.row(first["execution_id"]) == before
    assert await flows.said(first["execution_id"]) == ["Hello Ann"]


async def test_WF_07_a_key_is_of_one_workflow_tenant_and_workspace_and_without_one_each_is_its_own(
    flows: Flows,
) -> None:
    runs = []
    for name in ("mine", "yours"):
        await flows.put(GREETING | {"name": name})
        runs.append(await flows.trigger(name, {"name": "Ann"}, idempotency_key="k"))
        runs += [await flows.trigger(name, {"name": "Ann"}) for _ in range(2)]
    for tenant, workspace in (("acme", "default"), ("default", "two")):
        await flows.connection.execute(
            """SELECT dispatcher.put_workflow($1, $2, 'mine', v.definition, v.plan, 'ann', true)
                 FROM dispatcher.plan_versions v JOIN dispatcher.workflows w ON w.current = v.id
                WHERE w.name = 'mine' AND w.tenant_id = 'default' AND w.workspace_id = 'default'""",
            tenant,
            workspace,
        )
        names = {"idempotency_key": "k", "tenant_id": tenant, "workspace_id": workspace}
        runs.append(await flows.trigger("mine", {"name": "Ann"}, **names))
    assert len(set(runs)) == 8
    for run in runs:
        await flows.until_status(run, "completed")


async def test_WF_07_a_hundred_at_once_through_several_connections_start_one_run(flows: Flows) -> None:
    """All of them wait for a transaction that has used the key and then takes it back, so that they meet."""
    await flows.put(GREETING | {"name": "crowd"})
    ask = "SELECT * FROM dispatcher.trigger_workflow('crowd', '{\"name\": \"Ann\"}', 'k')"
    command = ("--json", "trigger", "crowd", "--var", "name=Ann", "--key", "k")
    async with connected(flows, 97) as connections:
        first = flows.connection.transaction()
        await first.start()
        given_back = await flows.connection.fetchval(ask)
        asked = [asyncio.create_task(connection.fetchrow(ask)) for connection in connections]
        commands = [asyncio.create_task(asyncio.to_thread(flows.program.run, *command)) for _ in range(3)]
        try:
            await until_blocked(flows.connection, 100)
        finally:
            await first.rollback()
        answers = [dict(answer) for answer in await asyncio.gather(*asked) if answer is not None]
        for done in await asyncio.gather(*commands):
            assert done.returncode == 0, done.stderr
            answers.append(json.loads(done.stdout))
    assert sum(not answer["duplicate"] for answer in answers) == 1
    (run,) = {answer["execution_id"] for answer in answers}
    assert len(answers) == 100
    assert run != given_back
    await flows.until_status(run, "completed")
    assert await flows.said(run) == ["Hello Ann"]
    assert await flows.connection.fetchval("SELECT count(*) FROM dispatcher.runs WHERE workflow = 'crowd'") == 1


# OP-01


async def test_OP_01_what_is_triggered_is_visible_within_its_transaction_and_rolled_back_with_it(flows: Flows) -> None:
    await flows.put(GREETING | {"name": "in-one"})
    undone = flows.connection.transaction()
    await undone.start()
    run = await flows.trigger("in-one", {"name": "Ann"}, idempotency_key="k")
    written = await enqueue(flows.connection, "enqueued")
    assert (await flows.view(run))["status"] == "pending"
    assert await flows.outbox.life(written["delivery_id"]) == "pending"
    again = await flows.answer("in-one", {"name": "Ann"}, idempotency_key="k")
    assert (again["execution_id"], again["duplicate"]) == (run, True)
    await undone.rollback()
    await flows.a_round()
    assert await flows.view(run) is None
    assert await flows.connection.fetchval("SELECT count(*) FROM dispatcher.deliveries WHERE run_id = $1", run) == 0
    with pytest.raises(ValueError, match="not enough values"):
        await flows.outbox.row(written["delivery_id"])
    # Neither is known any more: the key starts a run, and the delivery is written.
    second = await flows.answer("in-one", {"name": "Bob"}, idempotency_key="k")
    assert second["duplicate"] is False
    delivery = await enqueue(flows.connection, "enqueued")
    assert delivery["duplicate"] is False
    await flows.until_status(second["execution_id"], "completed")
    await flows.outbox.until_life(delivery["delivery_id"], "sent")
    assert await flows.outbox.captured(written["delivery_id"]) == []


async def test_OP_01_nothing_is_walked_before_the_callers_transaction_has_ended(flows: Flows) -> None:
    await flows.put(GREETING | {"name": "not-yet"})
    async with connected(flows, 1) as (caller,), caller.transaction():
        ask = "SELECT execution_id FROM dispatcher.trigger_workflow('not-yet', '{\"name\": \"Ann\"}')"
        run = await caller.fetchval(ask)
        written = await enqueue(caller, "not-yet")
        await flows.a_round()
        assert await caller.fetchval("SELECT status FROM dispatcher.runs WHERE id = $1", run) == "pending"
        assert await flows.outbox.captured(written["delivery_id"]) == []
    await flows.until_status(run, "completed")
    await flows.outbox.until_life(written["delivery_id"], "sent")


async def test_OP_01_a_role_that_may_execute_the_functions_needs_nothing_else(flows: Flows) -> None:
    await flows.put(GREETING | {"name": "by-role"})
    role = f"application_of_{await flows.connection.fetchval('SELECT current_database()')}"
    await flows.connection.execute(f"CREATE ROLE {role}; GRANT USAGE ON SCHEMA dispatcher TO {role}")
    functions = "dispatcher.trigger_workflow, dispatcher.enqueue_delivery"
    async with connected(flows, 1) as (caller,):
        await caller.execute(f"SET ROLE {role}")
        ask = "SELECT execution_id FROM dispatcher.trigger_workflow('by-role', '{\"name\": \"Ann\"}')"
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await caller.fetchval(ask)
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await enqueue(caller, "by-role")
        await flows.connection.execute(f"GRANT EXECUTE ON FUNCTION {functions} TO {role}")
        run = await caller.fetchval(ask)
        delivery = (await enqueue(caller, "by-role"))["delivery_id"]
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await caller.fetch("SELECT * FROM dispatcher.runs")
    await flows.until_status(run, "completed")
    await flows.outbox.until_life(delivery, "sent")
