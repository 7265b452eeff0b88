"""WF-21 and WF-22: what an operator does to a run, and what somebody who waits for one is told."""

import asyncio
import json
from datetime import datetime
from typing import Any

from tests.channels.shared.web.fake_server import FakeServer, says
from tests.conformance.flows import PAGER, Flows, graph, line, node
from tests.support.waits import until


async def act(flows: Flows, verb: str, run: int) -> dict[str, Any]:
    """What an operator's command says that it has done."""
    done = await asyncio.to_thread(flows.program.run, "--json", "runs", verb, str(run), "--reason", "to look at it")
    answer: dict[str, Any] = json.loads(done.stdout)
    assert answer["done"] is (done.returncode == 0)
    return answer


async def lives(flows: Flows, run: int) -> list[str]:
    """Where the deliveries of a run stand."""
    return [row["life"] for row in await flows.deliveries(run)]


async def until_lives(flows: Flows, run: int, *expected: str) -> None:
    """Wait until they stand just there."""

    async def there() -> bool:
        return await lives(flows, run) == list(expected)

    await until(there, f"the deliveries of run {run} are {', '.join(expected)}")


# WF-21


async def test_WF_21_a_paused_run_goes_no_further_until_it_is_resumed(flows: Flows) -> None:
    await flows.put(line("paused", node("paid", "wait", event="paid"), node("then", "sms", body="{{ paid.n }}")))
    run = await flows.trigger("paused")
    await flows.until_at(run, "paid")
    assert (await act(flows, "pause", run))["answer"] == "done"
    await flows.signal(run, "paid", {"n": 7})
    await flows.a_round()
    assert (await flows.status(run), await flows.at(run)) == ("paused", ["paid"])
    assert "to look at it" in (await flows.row(run))["note"]
    assert (await act(flows, "resume", run))["answer"] == "done"
    await flows.until_status(run, "completed")
    assert await flows.said(run) == ["7"]
    assert [entry["event"] for entry in await flows.log(run) if entry["node"] is None] == ["paused", "resumed"]


async def test_WF_21_what_a_paused_run_has_queued_waits_with_it(flows: Flows) -> None:
    """Beside it another run's delivery on the same channel goes out: it is not the channel that waits."""
    await flows.put(line("queued", node("call", "voice", body="hello")))
    await flows.stop("voice")
    run, beside = await flows.trigger("queued"), await flows.trigger("queued")
    for one in (run, beside):
        await flows.until_at(one, "call")
    await act(flows, "pause", run)
    await flows.go_on("voice")
    await flows.until_status(beside, "completed")
    await until_lives(flows, run, "parked")
    assert (await flows.status(run), await flows.said(run)) == ("paused", [])
    await act(flows, "resume", run)
    await flows.until_status(run, "completed")
    assert await flows.said(run) == ["hello"]


async def test_WF_21_a_delay_that_ends_while_its_run_is_paused_is_over_once_it_goes_on(flows: Flows) -> None:
    await flows.put(line("delayed", node("moment", "delay", duration="300ms"), node("then", "sms", body="late")))
    run = await flows.trigger("delayed")
    await flows.until_at(run, "moment")
    due = (await flows.row(run))["available_at"]
    await flows.connection.execute("SELECT dispatcher.pause_run($1)", run)

    async def passed() -> bool:
        return bool(await flows.connection.fetchval("SELECT clock_timestamp() > $1", due))

    await until(passed, "its time is up")
    await flows.a_round()
    assert (await flows.status(run), await flows.deliveries(run)) == ("paused", [])
    await flows.connection.execute("SELECT dispatcher.resume_run($1)", run)
    await flows.until_status(run, "completed")
    assert await flows.said(run) == ["late"]


async def test_WF_21_a_cancelled_run_sends_nothing_more_and_what_it_has_queued_is_skipped(flows: Flows) -> None:
    nodes = [node("start", "join"), node("call", "voice"), node("paid", "wait", event="paid"), node("then", "sms")]
    await flows.put(graph("cancelled", nodes, [("start", "call"), ("start", "paid"), ("paid", "then")]))
    await flows.stop("voice")
    run, beside = await flows.trigger("cancelled"), await flows.trigger("cancelled")
    for one in (run, beside):
        await flows.until_at(one, "call", "paid")
    assert (await act(flows, "cancel", run))["answer"] == "cancelled"
    (row,) = await flows.deliveries(run)
    assert (row["status"], row["error"]) == ("skipped", "cancelled: its run was cancelled")
    assert await flows.signal(run, "paid") == "cancelled"
    await flows.go_on("voice")
    await flows.signal(beside, "paid")
    await flows.until_status(beside, "completed")
    assert (await flows.status(run), await lives(flows, run), await flows.said(run)) == ("cancelled", ["skipped"], [])
    # Nothing brings it back.
    assert [(await act(flows, verb, run))["answer"] for verb in ("cancel", "pause", "resume", "retry")] == [
        "cancelled"
    ] * 4
    last = (await flows.log(run))[-1]
    assert (last["event"], "to look at it" in last["error"]) == ("cancelled", True)


async def test_WF_21_a_paused_run_can_be_cancelled(flows: Flows) -> None:
    await flows.put(line("both", node("call", "voice")))
    await flows.stop("voice")
    run = await flows.trigger("both")
    await flows.until_at(run, "call")
    await flows.connection.execute("SELECT dispatcher.pause_run($1)", run)
    await flows.connection.execute("SELECT dispatcher.cancel_run($1)", run)
    await flows.go_on("voice")
    await flows.a_round()
    assert (await flows.status(run), await lives(flows, run), await flows.said(run)) == ("cancelled", ["skipped"], [])


# WF-22


async def test_WF_22_a_trigger_answers_what_it_has_begun(flows: Flows) -> None:
    await flows.put(line("answers", node("first", "sms"), node("second", "sms"), node("third", "sms")))
    answer = dict(await flows.answer("answers"))
    run = answer.pop("execution_id")
    assert isinstance(run, int)
    assert answer == {
        "workflow_name": "answers",
        "status": "queued",
        "total_steps": 3,
        "version": 1,
        "duplicate": False,
    }
    done = flows.program.run("--json", "trigger", "answers", "--key", "k")
    said = json.loads(done.stdout)
    assert said.pop("execution_id") > run
    assert said == answer | {"idempotency_key": "k"}


# The columns of the older table, in its order, with its types; `id` is a number here.
COLUMNS = {
    "id": int,
    "workflow_name": str,
    "workflow_version": int,
    "status": str,
    "current_step": int,
    "total_steps": int,
    "input_payload": str,
    "context": str,
    "error_message": str,
    "error_step": str,
    "retry_count": int,
    "created_at": datetime,
    "started_at": datetime,
    "completed_at": datetime,
    "correlation_id": str,
    "triggered_by": str,
}


async def test_WF_22_the_view_has_the_columns_of_the_older_table(flows: Flows) -> None:
    nodes = node("first", "sms"), node("bad", PAGER, to="nobody", body="hello"), node("never", "sms")
    await flows.put(line("status", *nodes))
    run = await flows.trigger("status", {"n": 1}, idempotency_key="k", triggered_by="shop")
    await flows.until_status(run, "failed")
    await flows.connection.execute("SELECT dispatcher.replay_run($1)", run)
    await flows.until_status(run, "failed")
    row = await flows.view(run)
    # Whose it is stands behind them.
    assert list(row.keys()) == [*COLUMNS, "tenant_id", "workspace_id"]
    assert {name: type(row[name]) for name in COLUMNS} == COLUMNS
    assert (row["id"], row["workflow_name"], row["workflow_version"], row["status"]) == (run, "status", 1, "failed")
    assert (row["current_step"], row["total_steps"], row["retry_count"]) == (1, 3, 1)
    assert (row["triggered_by"], row["correlation_id"], row["error_step"]) == ("shop", "k", "bad")
    assert row["error_message"].startswith("recipient: ")
    assert json.loads(row["input_payload"]) == {"n": 1}
    assert json.loads(row["context"]).keys() == {"n", "first", "step_0_result"}
    assert row["created_at"] <= row["started_at"] <= row["completed_at"]


async def test_WF_22_a_step_is_counted_from_0_and_an_attempt_that_is_repeated_counts(
    flows: Flows, bill: FakeServer
) -> None:
    bill.next.append(says(503, {}))
    nodes = node("start", "join"), node("bill", "http", function="bill", action="x"), node("paid", "wait", event="paid")
    await flows.put(line("counted", *nodes, node("end", "join")), functions=["bill"])
    async with flows.connection.transaction():
        run = await flows.trigger("counted")
        row = await flows.view(run)
        assert (row["status"], row["current_step"], row["retry_count"]) == ("pending", 0, 0)
    await flows.until_at(run, "paid")
    row = await flows.view(run)
    assert (row["status"], row["current_step"], row["retry_count"], row["completed_at"]) == ("running", 2, 1, None)
    await flows.connection.execute("SELECT dispatcher.pause_run($1)", run)
    assert (await flows.view(run))["status"] == "running"
    await flows.connection.execute("SELECT dispatcher.resume_run($1)", run)
    await flows.signal(run, "paid")
    await flows.until_status(run, "completed")
    row = await flows.view(run)
    # The last one, as a client shows it: step 4 of 4.
    assert (row["status"], row["current_step"], row["error_message"]) == ("completed", 3, None)


async def test_WF_22_the_command_line_shows_the_run(flows: Flows) -> None:
    await flows.put(line("shown", node("first", "sms"), node("bad", PAGER, to="nobody", body="hello")))
    run = await flows.trigger("shown", {"n": 1}, idempotency_key="k", triggered_by="shop")
    await flows.until_status(run, "failed")
    (shown,) = map(json.loads, flows.program.run("--json", "runs", "show", str(run)).stdout.splitlines())
    assert (shown["id"], shown["workflow"], shown["status"], shown["current_steps"]) == (
        run,
        "shown",
        "failed",
        ["bad"],
    )
    assert (shown["error_node"], shown["triggered_by"], shown["idempotency_key"]) == ("bad", "shop", "k")
    assert shown["context"].keys() == {"n", "first", "step_0_result"}
    assert [step["step"] for step in shown["steps"]] == [0, 1]


async def test_WF_22_a_client_can_wait_for_the_end_and_is_told_of_each_step(flows: Flows) -> None:
    await flows.put(line("awaited", node("first", "sms"), node("second", "sms")))
    done = flows.program.run("--json", "trigger", "awaited", "--wait")
    assert done.returncode == 0, done.stderr
    answer, *steps, end = map(json.loads, done.stdout.splitlines())
    assert [(step["event"], step["node"]) for step in steps] == [
        (event, name) for name in ("first", "second") for event in ("started", "succeeded")
    ]
    assert (end["execution_id"], end["status"], end["ended"]) == (answer["execution_id"], "completed", True)


async def test_WF_22_who_waits_too_long_is_told_which_run_goes_on(flows: Flows) -> None:
    await flows.put(line("too-long", node("paid", "wait", event="paid")))
    done = flows.program.run("--json", "trigger", "too-long", "--wait", "--timeout", "0.2", "--key", "k")
    assert done.returncode == 1
    run = json.loads(done.stdout.splitlines()[0])["execution_id"]
    (error,) = map(json.loads, done.stderr.splitlines())
    assert (error["error"], error["execution_id"]) == ("TimedOut", run)
    assert f"run {run} has not ended within 0.2 s" in error["message"]
    await flows.until_status(run, "waiting")
    done = flows.program.run("trigger", "too-long", "--wait", "--timeout", "0.2", "--key", "k")
    assert f"run {run} has not ended" in done.stderr.decode()
    # It has not been stopped by that.
    await flows.signal(run, "paid")
    await flows.until_status(run, "completed")


async def test_WF_22_a_run_that_has_failed_ends_the_wait_as_a_failure(flows: Flows) -> None:
    await flows.put(line("fails", node("bad", PAGER, to="nobody", body="hello")))
    done = flows.program.run("--json", "trigger", "fails", "--wait")
    assert done.returncode == 1
    end = json.loads(done.stdout.splitlines()[-1])
    assert (end["status"], end["error_node"]) == ("failed", "bad")
