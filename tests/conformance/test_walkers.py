"""WF-12 and WF-16: delays that outlive the program, and several programs that walk at once."""

import json

import pytest

from tests.conformance.flows import BRISK, UNPOLLED, Flows, line, node, put
from tests.conformance.outbox import QUICK
from tests.support.program import Program
from tests.support.scene import Connection
from tests.support.waits import until

RUNS = 300


@pytest.fixture
async def flows(connection: Connection, program: Program) -> Flows:
    """Workflows, on a program that is not started yet."""
    return Flows(connection, program)


# WF-12


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_WF_12_a_delay_survives_a_restart_and_never_ends_early(flows: Flows, second: Program, how: str) -> None:
    await flows.program.start(**QUICK, **BRISK)
    delay = node("pause", "delay", duration="1500ms")
    await flows.put(line("delayed", delay, node("then", "sms", body="{{ name }}")))
    run = await flows.trigger("delayed", {"name": "Ann"})
    await flows.until_status(run, "waiting")
    due = (await flows.row(run))["available_at"]
    await (flows.program.stop() if how == "stop" else flows.program.kill())
    assert (await flows.status(run), (await flows.row(run))["available_at"]) == ("waiting", due)
    await second.start(**QUICK, **BRISK)
    await flows.until_status(run, "completed")
    assert await flows.said(run) == ["Ann"]
    (delivery,) = await flows.deliveries(run)
    assert delivery["scheduled_for"] >= due


async def test_WF_12_a_delay_that_ended_while_nobody_was_there_is_over_at_once(flows: Flows) -> None:
    """Nobody polls: the first look finds it."""
    await flows.put(line("delayed", node("pause", "delay", duration="1d"), node("then", "sms")))
    await flows.program.start(**BRISK)
    run = await flows.trigger("delayed")
    await flows.until_status(run, "waiting")
    await flows.program.stop()
    await flows.connection.execute(
        """UPDATE dispatcher.runs SET available_at = now() - interval '1 s',
                  state = jsonb_set(state, '{cursor,pause,until}', to_jsonb(extract(epoch FROM now()) - 1))"""
    )
    await flows.program.start(**BRISK, **UNPOLLED)
    await flows.until_status(run, "completed")


async def test_WF_12_delays_end_in_their_order_and_by_their_own_time(flows: Flows) -> None:
    """Nobody polls, and nothing wakes the walker but their times: each is due at its own, the shortest first."""
    delay = node("pause", "delay", until="{{ at }}")
    await flows.put(line("timed", delay, node("then", "sms", body="{{ name }}")))
    await flows.program.start(**BRISK, **UNPOLLED)
    times = await flows.connection.fetchrow(
        "SELECT " + ", ".join(f"clock_timestamp() + interval '{ms} ms'" for ms in (2_100, 1_400, 700))
    )
    assert times is not None
    runs = [await flows.trigger("timed", {"at": at.isoformat(), "name": at.isoformat()}) for at in times]
    for run, at in zip(runs, times, strict=True):
        await flows.until_status(run, "completed")
        (delivery,) = await flows.deliveries(run)
        assert delivery["scheduled_for"] >= at
    ends = [(await flows.row(run))["finished_at"] for run in runs]
    assert ends == sorted(ends, reverse=True)


async def test_WF_12_a_run_that_waits_is_not_taken_up(flows: Flows) -> None:
    """Rounds go by, and none of them touches it: its row, and what was noted, stay as they are."""
    await flows.put(line("delayed", node("pause", "delay", duration="1d"), node("then", "sms")))
    await flows.program.start(**BRISK)
    run = await flows.trigger("delayed")
    await flows.until_status(run, "waiting")
    version = await flows.connection.fetchval("SELECT xmin::text FROM dispatcher.runs WHERE id = $1", run)
    for _ in range(3):
        await flows.a_round()
    assert await flows.connection.fetchval("SELECT xmin::text FROM dispatcher.runs WHERE id = $1", run) == version


async def test_WF_12_whatever_wakes_a_run_ends_no_delay_early(flows: Flows) -> None:
    await flows.put(line("woken", node("pause", "delay", duration="1d"), node("then", "sms")))
    await flows.program.start(**BRISK)
    run = await flows.trigger("woken")
    await flows.until_status(run, "waiting")
    due = (await flows.row(run))["available_at"]
    await flows.signal(run, "whatever")

    async def looked_at() -> bool:
        return not await flows.connection.fetchval("SELECT count(*) FROM dispatcher.wakes")

    await until(looked_at, "it was taken up")
    assert (await flows.status(run), (await flows.row(run))["available_at"]) == ("waiting", due)
    assert await flows.happened(run) == [("started", "pause")]


# WF-16


async def test_WF_16_several_programs_walk_at_once_and_each_run_is_walked_by_one(flows: Flows, second: Program) -> None:
    """Small batches, so that both have their share of every step; a run that two had taken would be seen in its log."""
    settings = BRISK | {"DISPATCHER_WALK__BATCH_MAX": "5"}
    await flows.put(line("shared", node("first", "sms"), node("none", "delay", delayMs=0), node("second", "voice")))
    for program in (flows.program, second):
        await program.start(**settings)
    await flows.connection.execute(
        "SELECT count((dispatcher.trigger_workflow('shared')).execution_id) FROM generate_series(1, $1::int)", RUNS
    )

    async def all_ended() -> bool:
        left = await flows.connection.fetchval("SELECT count(*) FROM dispatcher.runs WHERE finished_at IS NULL")
        return bool(left == 0)

    await until(all_ended, "all have ended", 60)
    completed = "SELECT count(*) FROM dispatcher.runs WHERE status = 'completed'"
    assert await flows.connection.fetchval(completed) == RUNS
    for counted in ("deliveries", "captured_messages"):
        assert await flows.connection.fetchval(f"SELECT count(*) FROM dispatcher.{counted}") == 2 * RUNS
    logs = await flows.connection.fetch(
        """SELECT DISTINCT array_agg(event || ' ' || node ORDER BY number) AS log FROM dispatcher.run_entries
            GROUP BY run_id"""
    )
    ordered = [f"{event} {name}" for name in ("first", "none", "second") for event in ("started", "succeeded")]
    assert [row["log"] for row in logs] == [ordered]
    for program in (flows.program, second):
        # Nobody has tried what was another's already.
        assert program.events("walk.refused") == program.events("walk.failed") == []
        assert program.metric("dispatcher_runs_total", status="completed") > 0


async def test_WF_16_a_run_that_somebody_has_is_left_to_him_and_the_others_are_walked(
    flows: Flows, rival: Connection, second: Program
) -> None:
    await flows.put(line("shared", node("first", "sms", body="{{ n }}")))
    async with flows.connection.transaction():
        runs = [await flows.trigger("shared", {"n": number}) for number in range(20)]
    async with rival.transaction():
        await rival.execute("SELECT FROM dispatcher.runs WHERE id = $1 FOR UPDATE", runs[0])
        for program in (flows.program, second):
            await program.start(**BRISK)
        for run in runs[1:]:
            await flows.until_status(run, "completed")
        assert (await flows.status(runs[0]), await flows.deliveries(runs[0])) == ("pending", [])
    await flows.until_status(runs[0], "completed")
    assert await flows.said(runs[0]) == ["0"]


async def test_WF_16_one_program_walks_many_runs_at_once(flows: Flows) -> None:
    """All of them are under way together: none waits for the end of another."""
    await put(flows.connection, line("many", node("paid", "wait", event="paid"), node("then", "sms", body="{{ n }}")))
    await flows.program.start(**BRISK)
    runs = [await flows.trigger("many", {"n": number}) for number in range(50)]
    for run in runs:
        await flows.until_at(run, "paid")
    for run in reversed(runs):
        await flows.signal(run, "paid")
    for number, run in enumerate(runs):
        await flows.until_status(run, "completed")
        assert await flows.said(run) == [json.dumps(number)]
