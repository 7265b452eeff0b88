"""WF-08 to WF-11 and WF-15: where a run stands, how it goes on, what its nodes give, and what its log says."""

import json
from pathlib import Path
from typing import Any

import pytest

from dispatcher.base.values.idempotency import delivery_key
from tests.channels.shared.web.fake_server import FakeServer, says
from tests.conformance.flows import PAGER, Flows, graph, line, node

ANN, BOB, CAT, GONE, NOBODY = "ann", "bob", "cat", "gone", "nobody"


def say(name: str, body: str, **fields: Any) -> dict[str, Any]:
    """A node that says something by sms."""
    return node(name, "sms", body=body, **fields)


def page(name: str, *to: str, **fields: Any) -> dict[str, Any]:
    """A node that writes to several."""
    return node(name, PAGER, to=list(to), body="hello", **fields)


# WF-08


async def shown(flows: Flows, run: int) -> tuple[str, str]:
    """What a run is, and what the view calls that."""
    return (await flows.status(run), (await flows.view(run))["status"])


async def test_WF_08_a_run_is_pending_until_it_is_taken_up(flows: Flows) -> None:
    await flows.put(line("pending", node("hello", "sms")))
    async with flows.connection.transaction():
        run = await flows.trigger("pending")
        assert await shown(flows, run) == ("pending", "pending")
        assert (await flows.row(run))["started_at"] is None
    await flows.until_status(run, "completed")
    assert (await flows.row(run))["started_at"] is not None


async def test_WF_08_a_run_is_running_while_its_deliveries_are_in_flight_and_waiting_for_time_or_event(
    flows: Flows,
) -> None:
    nodes = [node("start", "join"), node("call", "voice"), node("paid", "wait", event="paid")]
    await flows.put(graph("in-flight", nodes, [("start", "call"), ("start", "paid")]))
    await flows.stop("voice")
    run = await flows.trigger("in-flight")
    await flows.until_at(run, "call", "paid")
    assert await shown(flows, run) == ("running", "running")
    await flows.go_on("voice")
    await flows.until_at(run, "paid")
    assert await shown(flows, run) == ("waiting", "running")
    await flows.signal(run, "paid")
    await flows.until_status(run, "completed")
    assert await shown(flows, run) == ("completed", "completed")

    await flows.put(line("for-a-time", node("day", "delay", duration="1d")))
    run = await flows.trigger("for-a-time")
    await flows.until_at(run, "day")
    assert await shown(flows, run) == ("waiting", "running")
    assert (await flows.row(run))["finished_at"] is None


async def test_WF_08_a_run_is_paused_cancelled_or_failed(flows: Flows) -> None:
    await flows.put(line("paused", node("paid", "wait", event="paid")))
    run = await flows.trigger("paused")
    await flows.until_status(run, "waiting")
    await flows.connection.execute("SELECT dispatcher.pause_run($1)", run)
    assert await shown(flows, run) == ("paused", "running")
    await flows.connection.execute("SELECT dispatcher.cancel_run($1)", run)
    assert await shown(flows, run) == ("cancelled", "cancelled")
    assert (await flows.view(run))["completed_at"] is not None
    await flows.put(line("failing", page("hello", NOBODY), say("never", "no")))
    run = await flows.trigger("failing")
    await flows.until_status(run, "failed")
    assert await shown(flows, run) == ("failed", "failed")


# WF-09


async def test_WF_09_the_cursor_advances_in_the_transaction_that_records_the_result(flows: Flows) -> None:
    """A row tells which transaction has written it: the success of one node, the start of the next and its order."""
    run = await flows.ended(line("in-one", say("first", "1"), say("second", "2")))
    rows = await flows.connection.fetch(
        """SELECT event || ' ' || node AS what, xmin::text FROM dispatcher.run_entries WHERE run_id = $1
           UNION ALL SELECT 'ordered ' || node, xmin::text FROM dispatcher.deliveries WHERE run_id = $1""",
        run,
    )
    by = {row["what"]: row["xmin"] for row in rows}
    assert by["succeeded first"] == by["started second"] == by["ordered second"]
    assert by["started first"] == by["ordered first"] != by["succeeded first"] != by["succeeded second"]


async def test_WF_09_a_node_begins_only_after_the_one_before_has_succeeded(flows: Flows) -> None:
    await flows.put(line("one-by-one", node("call", "voice"), say("then", "after it")))
    await flows.stop("voice")
    run = await flows.trigger("one-by-one")
    await flows.until_at(run, "call")
    # An event wakes it, as everything does that concerns it: it is looked at, and goes no further.
    await flows.signal(run, "whatever")
    await flows.a_round()
    assert await flows.happened(run) == [("started", "call")]
    assert [row["node"] for row in await flows.deliveries(run)] == ["call"]
    await flows.go_on("voice")
    await flows.until_status(run, "completed")
    called, then = await flows.deliveries(run)
    assert then["created_at"] >= called["finished_at"]


async def test_WF_09_behind_a_node_that_has_failed_nothing_begins(flows: Flows) -> None:
    await flows.put(line("stops", page("hello", NOBODY), say("never", "no")))
    run = await flows.trigger("stops")
    await flows.until_status(run, "failed")
    assert [row["node"] for row in await flows.deliveries(run)] == ["hello"]
    assert await flows.at(run) == ["hello"]
    assert await flows.said(run) == []


# WF-10


async def test_WF_10_a_send_gives_its_results_under_its_name_and_its_number(flows: Flows) -> None:
    second = say("second", "{{ first.status }} {{ step_0_result.message_id }}")
    run = await flows.ended(line("result", say("first", "hi"), second))
    first, _ = await flows.deliveries(run)
    context = await flows.context(run)
    assert context["first"] == context["step_0_result"]
    assert context["first"].keys() == {"message_id", "sent_at", "status"}
    assert context["first"]["status"] == "sent"
    sent_at = f"{first['finished_at']:%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z"
    assert context["first"]["sent_at"] == sent_at
    assert await flows.said(run) == ["hi", f"sent {context['first']['message_id']}"]
    assert context["first"]["message_id"] == (await flows.outbox.row(first["id"]))["provider_message_id"]


async def test_WF_10_of_several_recipients_each_has_its_result_and_one_that_was_sent_is_enough(flows: Flows) -> None:
    await flows.stop(PAGER)
    nodes = page("hello", "{{ everybody }}", BOB), say("then", "{{ hello.recipients | size }}")
    await flows.put(line("several", *nodes))
    run = await flows.trigger("several", {"everybody": [ANN, NOBODY, CAT, BOB]})
    await flows.until_at(run, "hello")
    rows = await flows.deliveries(run)
    assert [row["recipient"] for row in rows] == [ANN, NOBODY, CAT, BOB]
    # Not before all of them are over.
    cat = rows[2]["id"]
    assert (
        await flows.connection.fetchval("SELECT dispatcher.cancel_delivery_by_id($1, 'ann', 'no')", cat) == "cancelled"
    )
    await flows.a_round()
    assert await flows.status(run) == "running"
    await flows.go_on(PAGER)
    await flows.until_status(run, "completed")
    result = (await flows.context(run))["step_0_result"]
    statuses = {one["recipient"]: one["status"] for one in result["recipients"]}
    assert statuses == {ANN: "sent", NOBODY: "failed", CAT: "skipped", BOB: "sent"}
    assert result["status"] == "sent"
    errors = {one["recipient"]: one["error"] for one in result["recipients"] if "error" in one}
    assert errors.keys() == {NOBODY, CAT}
    assert (await flows.said(run))[-1] == "4"


@pytest.mark.parametrize(
    ("to", "status"),
    [
        ([ANN, BOB], "completed"),
        ([ANN, NOBODY], "completed"),
        ([GONE], "completed"),
        ([NOBODY], "failed"),
        ([NOBODY, "nobody else"], "failed"),
        ([NOBODY, GONE], "failed"),
    ],
    ids=["sent", "one sent", "skipped", "failed", "all failed", "failed and skipped"],
)
async def test_WF_10_a_send_has_failed_only_if_a_delivery_failed_and_none_was_sent(
    flows: Flows, to: list[str], status: str
) -> None:
    await flows.connection.execute(
        """INSERT INTO dispatcher.suppressions (kind, address) VALUES ('other', $1) ON CONFLICT DO NOTHING""",
        GONE,
    )
    await flows.put(line("which-failed", page("hello", "{{ to }}")))
    run = await flows.trigger("which-failed", {"to": to})
    await flows.until_status(run, status)
    row = await flows.row(run)
    assert (row["error_node"], bool(row["error"])) == (("hello", True) if status == "failed" else (None, False))


async def test_WF_10_template_version_and_variables_are_frozen_when_the_node_is_entered(
    flows: Flows, tmp_path: Path
) -> None:
    file = tmp_path / "frozen.liquid"

    def publish(text: str) -> None:
        file.write_text(f"---\nchannel: voice\n---\n--- body ---\n{text}\n")
        done = flows.program.run("templates", "put", str(file), "--publish")
        assert done.returncode == 0, done.stderr

    publish("First {{ name }}")
    nodes = node("call", "voice", template="frozen"), node("paid", "wait", event="paid")
    await flows.put(line("frozen", *nodes, node("again", "voice", template="frozen")))
    await flows.stop("voice")
    run = await flows.trigger("frozen", {"name": "Ann", "secret": "not read by it"})
    await flows.until_at(run, "call")
    publish("Second {{ name }}")
    (row,) = await flows.deliveries(run)
    assert json.loads(row["variables"]) == {"name": "Ann"}
    await flows.go_on("voice")
    await flows.signal(run, "paid")
    await flows.until_status(run, "completed")
    assert await flows.said(run) == ["First Ann", "Second Ann"]


@pytest.mark.parametrize("form", ["graph", "list"])
async def test_WF_10_a_call_gives_its_data_and_in_a_list_merges_it_into_the_context(
    flows: Flows, form: str, bill: FakeServer
) -> None:
    bill.next.append(says(200, {"success": True, "data": {"invoice": 17, "name": "Bill"}}))
    payload = {"for": "{{ name }}"}
    if form == "graph":
        nodes = node("bill", "http", function="bill", action="create", payload=payload), say("end", "{{ name }}")
        definition = line("merges-not", *nodes)
    else:
        step = {"name": "bill", "function": "bill", "action": "create", "payload_template": payload}
        room = {"channel": "sales", "message": "{{ name }}"}
        end = {"name": "end", "function": "slack", "action": "told", "payload_template": room}
        definition = {"name": "merges", "steps": [step, end]}
    await flows.put(definition, functions=["bill"])
    run = await flows.trigger(definition["name"], {"name": "Ann"})
    await flows.until_status(run, "completed")
    context = await flows.context(run)
    assert context["bill"] == context["step_0_result"] == {"invoice": 17, "name": "Bill"}
    assert context.get("invoice") == (17 if form == "list" else None)
    assert await flows.said(run) == ["Bill" if form == "list" else "Ann"]


async def test_OB_03_the_key_of_what_a_run_sends_follows_from_its_row(flows: Flows) -> None:
    run = await flows.ended(line("keys", page("hello", ANN, BOB)))
    rows = await flows.deliveries(run)
    assert [row["idempotency_key"] for row in rows] == [
        delivery_key(PAGER, run, row["recipient"], None, row["scheduled_for"], node="hello") for row in rows
    ]


# WF-11


async def test_WF_11_a_node_is_given_a_snapshot_and_what_it_adds_is_recorded(flows: Flows) -> None:
    """What each node saw is what the one before saw, with what that has added; nothing that was there is changed."""
    nodes = say("first", "1"), node("paid", "wait", event="paid"), say("second", "{{ name }}")
    await flows.put(line("snapshots", *nodes))
    given = {"name": "Ann", "order": {"lines": [1, 2]}}
    run = await flows.trigger("snapshots", given)
    await flows.until_at(run, "paid")
    # An event that brings the name of something that is there changes neither that nor what was noted.
    await flows.signal(run, "paid", {"name": "Bob", "order": {"lines": []}})
    await flows.until_status(run, "completed")
    entries = {(entry["event"], entry["node"]): entry for entry in await flows.log(run)}
    seen = {name: entries["started", name]["context"] for name in ("first", "second")}
    added = {name: entries["succeeded", name]["added"] for name in ("first", "paid", "second")}
    assert seen["first"] == given
    assert added["first"].keys() == {"first", "step_0_result"}
    assert added["paid"] == {name: {"name": "Bob", "order": {"lines": []}} for name in ("paid", "step_1_result")}
    assert seen["second"] == given | added["first"] | added["paid"]
    assert await flows.context(run) == seen["second"] | added["second"]
    assert json.loads((await flows.row(run))["input"]) == given
    assert await flows.said(run) == ["1", "Ann"]


async def test_WF_11_what_is_added_beside_a_node_is_not_in_its_snapshot(flows: Flows) -> None:
    """Both happen in one walk: a node begins, and behind it another adds what it has waited for."""
    nodes = [node("go", "wait", event="go"), say("hello", "{{ name }}"), node("paid", "wait", event="paid")]
    await flows.put(graph("beside", nodes, [("go", "hello"), ("go", "paid")]))
    run = await flows.trigger("beside", {"name": "Ann"})
    await flows.until_at(run, "go")
    async with flows.connection.transaction():
        for event in ("paid", "go"):
            await flows.signal(run, event, {"of": event})
    await flows.until_status(run, "completed")
    started, before = [entry for entry in await flows.log(run) if entry["node"] in ("hello", "go")][2], {"of": "go"}
    assert (started["event"], started["node"]) == ("started", "hello")
    assert started["context"] == {"name": "Ann", "go": before, "step_0_result": before}
    assert (await flows.context(run))["paid"] == {"of": "paid"}


# WF-15


async def test_WF_15_the_log_has_each_start_success_failure_retry_and_skip(flows: Flows, bill: FakeServer) -> None:
    bill.next.append(says(503, {}))
    nodes = [
        node("bill", "http", function="bill", action="create"),
        page("hello", NOBODY, on_failure="continue"),
        node("which", "branch"),
        say("never", "no"),
        say("always", "yes"),
    ]
    edges = [("bill", "hello"), ("hello", "which"), ("which", "never", "name == 'Bob'"), ("which", "always")]
    await flows.put(graph("logged", nodes, edges), functions=["bill"])
    run = await flows.trigger("logged", {"name": "Ann"})
    await flows.until_status(run, "completed")
    done = flows.program.run("--json", "runs", "show", str(run))
    assert done.returncode == 0, done.stderr
    log = json.loads(done.stdout)["log"]
    assert [(entry["event"], entry["node"]) for entry in log] == [
        ("started", "bill"),
        ("retry", "bill"),
        ("succeeded", "bill"),
        ("started", "hello"),
        ("failed", "hello"),
        ("started", "which"),
        ("succeeded", "which"),
        ("skipped", "never"),
        ("started", "always"),
        ("succeeded", "always"),
    ]
    at = [entry["at"] for entry in log]
    assert at == sorted(at)
    stored = "SELECT event, node FROM dispatcher.run_log WHERE run_id = $1 ORDER BY at, number"
    assert [tuple(row) for row in await flows.connection.fetch(stored, run)] == [
        (entry["event"], entry["node"]) for entry in log
    ]
    assert (log[1]["attempt"], "503" in log[1]["error"], log[1]["next_at"] > log[1]["at"]) == (1, True, True)
    contexts = {entry["node"]: entry["context"] for entry in log if entry["event"] == "started"}
    assert contexts["bill"] == {"name": "Ann"}
    assert (
        contexts["always"]
        == {"name": "Ann", "bill": {"invoice": 17}, "step_0_result": {"invoice": 17}} | (log[4]["added"])
    )
    assert log[4]["added"] == {"step_1_error": log[4]["error"]}
    assert log[4]["error"].startswith("recipient: ")
