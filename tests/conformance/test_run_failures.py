"""WF-13, WF-14, WF-17 and WF-18: how runs fail, what is tried again and how often, and how they go on afterwards."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.channels.shared.web.fake_server import LOOPBACK, FakeServer, Silent, dropped, says
from tests.conformance.outbox import faults
from tests.conformance.runs import BRISK, Running, Runs, call, running, sms, steps
from tests.support.program import Process, Program
from tests.support.scene import Connection
from tests.support.waits import until

BUSY = says(503, {"success": False, "error": "busy"})
FINE = says(200, {"success": True, "data": {"invoice": 17}})
KNOWN = ("bill",)
WHY = ("--reason", "it is back", "--actor", "ann")


def at(fake: FakeServer) -> dict[str, str]:
    """A function at a server of ours; voice is refused for good, and what is given to push never ends."""
    given = {"URL": fake.url, "ALLOW_ADDRESSES": LOOPBACK}
    functions = {f"DISPATCHER_FUNCTIONS__BILL__{name}": text for name, text in given.items()}
    refuses = faults("voice", refuse=1) | faults("push", hang=1)
    return {"DISPATCHER_CHANNELS__HTTP__PROVIDER": "functions"} | functions | refuses


@pytest.fixture(scope="module")
async def place(shared_url: str) -> AsyncIterator[tuple[Running, FakeServer]]:
    """A program and its function."""
    async with FakeServer(FINE) as fake, running(shared_url, at(fake), KNOWN) as here:
        yield here, fake


@pytest.fixture
def fake(place: tuple[Running, FakeServer]) -> FakeServer:
    """Its function, which nobody has called yet and which is busy."""
    fake = place[1]
    fake.requests.clear()
    fake.next.clear()
    fake.always = BUSY
    return fake


async def dead(program_here: Program, *words: str) -> Any:
    """A command about dead letters, beside the function that answers meanwhile."""
    done = await asyncio.to_thread(program_here.run, "dead", *words, "--json")
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.splitlines()]


async def sent(runs: Runs, run: int) -> list[str]:
    """The nodes whose messages a provider was given, in order."""
    rows = await runs.connection.fetch(
        """SELECT d.node FROM dispatcher.captured_messages m JOIN dispatcher.deliveries d ON d.id = m.delivery_id
            WHERE d.run_id = $1 ORDER BY m.id""",
        run,
    )
    return [row["node"] for row in rows]


async def pass_time(runs: Runs, run: int, seconds: float = 3_600.0) -> None:
    """Let all that has happened to a run have happened so much earlier."""
    await runs.connection.execute(
        """UPDATE dispatcher.runs r
              SET created_at = created_at - p, started_at = started_at - p, paused_at = paused_at - p,
                  available_at = available_at - p,
                  state = state
                      || jsonb_build_object('cursor', (
                             SELECT jsonb_object_agg(node, v || jsonb_strip_nulls(jsonb_build_object(
                                        'since', (v ->> 'since')::float8 - $2, 'until', (v ->> 'until')::float8 - $2)))
                               FROM jsonb_each(state -> 'cursor') AS visits (node, v)))
                      || jsonb_strip_nulls(jsonb_build_object(
                             'working_since', (state ->> 'working_since')::float8 - $2))
             FROM make_interval(secs => $2) AS p WHERE r.id = $1""",
        run,
        seconds,
    )
    await runs.connection.execute(
        """UPDATE dispatcher.delivery_state SET held_at = held_at - make_interval(secs => $2),
                  settle_after = settle_after - make_interval(secs => $2)
            WHERE held AND wakes = $1""",
        run,
        seconds,
    )


@pytest.mark.parametrize(
    ("node", "more", "calls"),
    [
        ({}, {}, 3),
        ({}, {"max_retries": 2}, 2),
        ({"max_attempts": 4}, {"max_retries": 2}, 4),
        ({"on_failure": "abort"}, {}, 1),
        ({"on_failure": "abort", "max_attempts": 2}, {}, 2),
    ],
    ids=["by default", "of the workflow", "of the node", "abort", "abort after two"],
)
async def test_WF_13_a_passing_failure_is_tried_as_often_as_the_node_says_and_then_fails_the_run(
    runs: Runs, fake: FakeServer, node: dict[str, Any], more: dict[str, Any], calls: int
) -> None:
    run = await runs.start(steps(sms(), call(**node), sms(), **more))
    row = await runs.until_status(run, "failed", "completed")
    assert (row["status"], row["error_node"]) == ("failed", "n2")
    assert "busy" in row["error"]
    assert len(fake.requests) == calls
    # Its attempts are those of its one delivery.
    assert [(one["node"], one["attempt"]) for one in await runs.deliveries(run)] == [("n1", 1), ("n2", calls)]
    assert await sent(runs, run) == ["n1"]


async def test_WF_13_the_waits_between_attempts_double(runs: Runs, fake: FakeServer) -> None:
    run = await runs.start(steps(call(max_attempts=4)))
    await runs.until_status(run, "failed")
    (delivery,) = await runs.deliveries(run)
    first, second, third = [
        (one["next_at"] - one["ended_at"]).total_seconds() for one in await runs.outbox.attempts(delivery["id"])
    ]
    assert second == pytest.approx(2 * first, rel=0.1)
    assert third == pytest.approx(2 * second, rel=0.1)


async def test_WF_13_a_permanent_failure_fails_the_run_at_once(runs: Runs) -> None:
    run = await runs.start(steps(sms(type="voice"), sms()))
    row = await runs.until_status(run, "failed", "completed")
    assert (row["status"], row["error_node"]) == ("failed", "n1")
    assert [(one["node"], one["attempt"]) for one in await runs.deliveries(run)] == [("n1", 1)]


@pytest.mark.parametrize(("node", "calls"), [({}, 1), ({"max_attempts": 2}, 2)], ids=["at once", "after two"])
async def test_WF_13_after_a_node_that_continues_the_walk_goes_on_with_its_error(
    runs: Runs, fake: FakeServer, node: dict[str, Any], calls: int
) -> None:
    said = sms(body="{% if step_0_error %}failed: {{ step_0_error }}{% endif %}")
    run = await runs.start(steps(call(on_failure="continue", **node), sms(type="voice", on_failure="continue"), said))
    await runs.until_status(run, "completed")
    assert len(fake.requests) == calls
    added = await runs.vars(run)
    assert "busy" in added["step_0_error"]
    assert added["step_1_error"]
    parts = await runs.connection.fetchval(
        """SELECT m.parts::text FROM dispatcher.captured_messages m JOIN dispatcher.deliveries d ON d.id = m.delivery_id
            WHERE d.run_id = $1 AND d.node = 'n3'""",
        run,
    )
    assert json.loads(parts)["body"] == f"failed: {added['step_0_error']}"
    assert ("failed", "n1") in await runs.events(run)


async def test_WF_14_a_replay_goes_on_from_the_node_that_failed_and_sends_nothing_again(
    runs: Runs, program_here: Program, fake: FakeServer
) -> None:
    run = await runs.start(steps(sms(), call(), sms()))
    await runs.until_status(run, "failed")
    before = await runs.deliveries(run)
    assert await dead(program_here, "replay", f"run:{run}", *WHY)
    await runs.until_status(run, "failed")
    # Three calls again, of the same delivery.
    assert len(fake.requests) == 6
    assert [one["id"] for one in await runs.deliveries(run)] == [one["id"] for one in before]

    fake.always = FINE
    assert await dead(program_here, "replay", f"run:{run}", *WHY)
    row = await runs.until_status(run, "completed", "failed")
    assert (row["status"], row["retries"]) == ("completed", 2)
    assert len(fake.requests) == 7
    assert len({one.headers["idempotency-key"] for one in fake.requests}) == 1
    assert await sent(runs, run) == ["n1", "n3"]
    kept = await runs.connection.fetch(
        "SELECT actor, reason FROM dispatcher.operator_actions WHERE delivery_id = $1", before[1]["id"]
    )
    assert [tuple(one) for one in kept] == [("ann", "it is back")] * 2


async def test_WF_18_failed_runs_and_deliveries_are_replayed_by_filter(
    runs: Runs, program_here: Program, fake: FakeServer
) -> None:
    definition = steps(call(), name="by-filter")
    first = await runs.start(definition)
    second = await runs.trigger("by-filter")
    delivery = await runs.outbox.put("http", recipient="bill", template='{"body": "{}"}', max_attempts=1)
    for run in (first, second):
        await runs.until_status(run, "failed")
    await runs.outbox.until_life(delivery, "failed")
    listed = await dead(program_here, "list", "--workflow", "by-filter")
    assert [one["letter"] for one in listed] == [f"run:{second}", f"run:{first}"]
    listed = await dead(program_here, "list", "--channel", "http", "--error", "BUSY")
    assert [one["letter"] for one in listed] == [f"delivery:{delivery}"]

    fake.always = FINE
    assert await dead(program_here, "replay", "--all", "--workflow", "by-filter", *WHY, "--yes") == [
        {"dead": 2, "replayed": 2, "not_replayed": 0}
    ]
    assert (await dead(program_here, "replay", "--all", "--channel", "http", *WHY, "--yes"))[0]["replayed"] == 1
    for run in (first, second):
        await runs.until_status(run, "completed")
    await runs.outbox.until_life(delivery, "sent")
    assert await dead(program_here, "list", "--workflow", "by-filter") == []


async def test_WF_17_a_run_that_works_for_too_long_fails(runs: Runs) -> None:
    run = await runs.start(steps(sms(), sms(type="push"), timeout_seconds=1))
    row = await runs.until_status(run, "failed")
    assert (row["error_node"], row["error"]) == ("n2", "timeout: worked for more than 1 seconds")


async def test_WF_17_the_list_form_has_300_seconds_and_a_graph_has_all_the_time(runs: Runs, fake: FakeServer) -> None:
    silent = Silent()
    fake.next += [silent, silent]
    step = {"name": "bill", "function": "bill", "action": "create", "payload_template": {}}
    run = await runs.start({"steps": [step]})
    graph = await runs.start(steps(call()))
    for one, node in ((run, "bill"), (graph, "n1")):
        await runs.delivery(one, node, "sending")
        await pass_time(runs, one, 290)
        assert (await runs.row(one))["status"] == "running"
        await pass_time(runs, one, 11)
    row = await runs.until_status(run, "failed")
    assert row["error"].startswith("timeout: worked for more than 300 seconds")
    silent.let_go.set()
    await runs.until_status(graph, "completed")


async def test_WF_17_a_call_takes_no_longer_than_its_visibility_timeout(runs: Runs, fake: FakeServer) -> None:
    """The other one, which began earlier and has the default, is still under way."""
    silent = Silent()
    fake.next += [silent, silent]
    patient = await runs.start(steps(call()))
    await runs.delivery(patient, "n1", "sending")
    impatient = await runs.start(steps(call(), visibility_timeout=1))
    # Its function is not idempotent, so nobody knows what it has done.
    await runs.delivery(impatient, "n1", "held")
    await runs.delivery(patient, "n1", "sending")
    silent.let_go.set()
    await runs.until_status(patient, "completed", "failed")
    assert len(fake.requests) == 2


async def test_WF_17_delays_do_not_count(runs: Runs) -> None:
    run = await runs.start(steps(sms(), {"type": "delay", "duration": "1h"}, sms(), timeout_seconds=60))
    await runs.until_status(run, "waiting")
    await pass_time(runs, run)
    await runs.until_status(run, "completed")


async def test_WF_17_pauses_do_not_count(runs: Runs, fake: FakeServer) -> None:
    silent = Silent()
    fake.next.append(silent)
    fake.always = FINE
    run = await runs.start(steps(call(), call(), timeout_seconds=60))
    await runs.delivery(run, "n1", "sending")
    assert await runs.connection.fetchval("SELECT dispatcher.pause_run($1, 'wait')", run) == "done"
    await pass_time(runs, run)
    assert await runs.connection.fetchval("SELECT dispatcher.resume_run($1, 'go')", run) == "done"
    silent.let_go.set()
    await runs.until_status(run, "completed")


@pytest.mark.parametrize("as_what", ["sent", "requeue"])
async def test_WF_17_what_was_held_does_not_count(runs: Runs, fake: FakeServer, as_what: str) -> None:
    fake.next.append(dropped)
    fake.always = FINE
    run = await runs.start(steps(call(), call(), timeout_seconds=60))
    held = await runs.delivery(run, "n1", "held")
    await pass_time(runs, run)
    settle = "SELECT dispatcher.settle_held($1, $2, 'ann', 'looked it up')"
    assert await runs.connection.fetchval(settle, held, as_what) == "settled"
    await runs.until_status(run, "completed")


async def test_WF_17_a_run_that_kills_its_worker_five_times_is_a_dead_letter(
    program: Program, connection: Connection
) -> None:
    """Whatever starts the program again does so at once: no death is forgotten over that."""
    runs = Runs(connection)
    run = await runs.start(steps(sms()))
    deaths = 0
    while (await runs.row(run))["status"] != "failed":
        program.begin(**BRISK, FAULT="walk.noted:1:kill9")
        process = program.process
        assert process is not None

        async def ended(process: Process = process) -> bool:
            return process.poll() is not None or (await runs.row(run))["status"] == "failed"

        await until(ended, "it dies, or the run is given up")
        deaths += process.poll() == -signal.SIGKILL
        await program.kill()
        assert deaths <= 5
    assert deaths == 5
    (letter,) = await dead(program, "list")
    assert letter["letter"] == f"run:{run}"
    assert letter["error"].startswith("poison: it was taken up 5 times")
    # Given another chance, it takes it.
    assert await dead(program, "replay", f"run:{run}", *WHY)
    await program.start(**BRISK)
    await runs.until_status(run, "completed")
    assert await sent(runs, run) == ["n1"]
