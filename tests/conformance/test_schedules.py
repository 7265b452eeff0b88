"""OP-13: cron triggers. One run for each tick, also with several replicas, and whoever dies over it."""

from collections.abc import Sequence
from typing import Any

from dispatcher.features.schedules.rules import Cron
from tests.conformance.outbox import QUICK, once
from tests.features.runs.plans import put_plan, telling
from tests.support.program import Program
from tests.support.scene import Connection
from tests.support.waits import until

BRISK = QUICK | {"DISPATCHER_WALK__POLL_SECONDS": "0.05"}
NAMES = [f"minutely-{number}" for number in range(10)]
ROUNDS = 8


async def _put(program: Program, connection: Connection, names: Sequence[str] = NAMES) -> None:
    await put_plan(connection, telling())
    put = """SELECT dispatcher.put_schedule('default', 'default', name, 'report', '* * * * *', 'UTC', '{}',
                                               now() + interval '1 day', 'ann') FROM unnest($1::text[]) AS name"""
    await connection.execute(put, names)


async def _let_tick(connection: Connection, hours: int) -> None:
    """One tick of each is due now: the only one in so many hours."""
    await connection.execute(
        """UPDATE dispatcher.schedules
              SET next_at = date_trunc('minute', now()) - make_interval(hours => $1), cron = '0 0 1 1 *'""",
        hours,
    )


async def _nothing_is_due(connection: Connection) -> bool:
    return not await connection.fetchval("SELECT count(*) FROM dispatcher.schedules WHERE active AND next_at <= now()")


async def _runs(connection: Connection) -> Sequence[Any]:
    return await connection.fetch("SELECT idempotency_key AS key, status FROM dispatcher.runs ORDER BY id")


async def test_OP_13_two_replicas_have_one_run_a_tick(
    program: Program, second: Program, connection: Connection
) -> None:
    await _put(program, connection)
    await program.start(**BRISK)
    await second.start(**BRISK)
    for hours in range(ROUNDS):
        await _let_tick(connection, hours)
        await until(lambda: _nothing_is_due(connection), "every schedule has ticked")

    async def all_done() -> bool:
        return {run["status"] for run in await _runs(connection)} == {"completed"}

    await until(all_done, "every run is completed")
    keys = [run["key"] for run in await _runs(connection)]
    assert len(set(keys)) == len(keys) == len(NAMES) * ROUNDS
    sent = await connection.fetch("SELECT delivery_id FROM dispatcher.captured_messages")
    assert len(sent) == len(keys)
    assert once([row["delivery_id"] for row in sent])


async def test_OP_13_a_replica_that_dies_over_a_tick_has_neither_lost_nor_doubled_it(
    program: Program, second: Program, connection: Connection
) -> None:
    await _put(program, connection)
    await program.start(**BRISK, FAULT="tick.before_commit:1:kill9")
    await _let_tick(connection, 1)
    assert await program.ended() != 0
    assert await _runs(connection) == []
    await second.start(**BRISK)
    await until(lambda: _nothing_is_due(connection), "every schedule has ticked")
    keys = [run["key"] for run in await _runs(connection)]
    assert len(set(keys)) == len(keys) == len(NAMES)


async def test_OP_13_of_what_was_missed_the_latest_runs(program: Program, connection: Connection) -> None:
    """The dispatcher was down for ten minutes and more."""
    await _put(program, connection, ["minutely"])
    now = await connection.fetchval(
        "UPDATE dispatcher.schedules SET next_at = date_trunc('minute', now()) - interval '10 minutes' RETURNING now()"
    )
    latest = Cron("* * * * *", "UTC").latest(now.replace(second=0, microsecond=0), now)
    await program.start(**BRISK)
    runs = await until(lambda: _runs(connection), "there is a run")
    # As long as no other minute has begun, it is that of this one.
    assert runs[0]["key"] >= f"schedule:minutely:{latest:%Y-%m-%dT%H:%M:%SZ}"
    missed = await until(lambda: program.events("schedule.missed"), "it says what was missed")
    assert missed[0]["ticks"] >= 10
