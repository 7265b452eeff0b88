"""WF-21 and WF-22: what an operator does to a run, and what somebody who waits for one is told."""

import asyncio
import json
from typing import Any

from tests.conformance.flows import PAGER, Flows, graph, line, node
from tests.store.waits import until


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
    assert (await flows.status(run), (await flows.view(run))["current_steps"]) == ("paused", ["paid"])
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
    await flows.connection.execute("SELECT dispatcher.pause_run_v1($1)", run)

    async def passed() -> bool:
        return bool(await flows.connection.fetchval("SELECT clock_timestamp() > $1", due))

    await until(passed, "its time is up")
    await flows.a_round()
    assert (await flows.status(run), await flows.deliveries(run)) == ("paused", [])
    await flows.connection.execute("SELECT dispatcher.resume_run_v1($1)", run)
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
    await flows.connection.execute("SELECT dispatcher.pause_run_v1($1)", run)
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


async def test_WF_22_a_status_call_returns_the_run(flows: Flows) -> None:
    nodes = node("first", "sms"), node("bad", PAGER, to="nobody", body="hello"), node("never", "sms")
    await flows.put(line("status", *nodes))
    run = await flows.trigger("status", {"n": 1}, idempotency_key="k", triggered_by="shop")
    await flows.until_status(run, "failed")
    await flows.connection.execute("SELECT dispatcher.replay_run_v1($1)", run)
    await flows.until_status(run, "failed")
    view = dict(await flows.view(run))
    (shown,) = map(json.loads, flows.program.run("--json", "runs", "show", str(run)).stdout.splitlines())
    own = {"workflow": "workflow_name", "error_node": "error_step", "retries": "retry_count"}
    for status in (view, shown | {name: shown[key] for key, name in own.items()}):
        assert (status["workflow_name"], status["error_step"], status["retry_count"]) == ("status", "bad", 1)
        assert (status["execution_id"], status["version"], status["status"]) == (run, 1, "failed")
        assert (status["current_steps"], status["total_steps"]) == (["bad"], 3)
        assert (status["triggered_by"], status["idempotency_key"]) == ("shop", "k")
        assert status["error"].startswith("recipient: ")
        both = status["input"], status["context"]
        given, context = (json.loads(one) if isinstance(one, str) else one for one in both)
        assert given == {"n": 1}
        assert context.keys() == {"n", "first", "step_1_result"}
        assert status["created_at"] <= status["started_at"] <= status["finished_at"]


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
