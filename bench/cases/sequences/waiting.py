"""A million enrolments that wait: what that costs, what one more takes, and what a pause takes."""

import asyncio
import time

from bench import outbox, runs, sequences
from bench.measure import Measure, beside, median
from bench.process import dispatching
from bench.server import Connection, Server

# Enrolments that wait; `deliveries` of the command line.
DELIVERIES = 1_000_000
ROUNDS = 200
# Long enough for each chore at its own pace, after half as long for what the start and a million new rows cause.
IDLE_SECONDS = 30.0
PAUSES = 5
PAUSE_SECONDS_MAX = 1.0

METHOD = "p50 of {rounds} enrolments of one contact, with {count} that wait, and with none. Less is better; limit 1.5."
METHOD_IDLE = "CPU over {seconds:g} s, process and server together, with {count} that wait. Limit 1 %."
METHOD_PAUSE = "The slowest of {pauses} pauses and {pauses} ends of a pause, with {count} that wait. Less is better."


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Fill one database, and compare it with an empty one."""
    async with outbox.outbox(server) as (url, connection), outbox.outbox(server) as (_, empty):
        for one, count in ((connection, deliveries), (empty, 0)):
            await sequences.publish(one, (30,))
            await sequences.contacts(one, count)
            await sequences.enrol_all(one, count)
            # All tables: autovacuum would come to those of a million new contacts while the idle process is measured.
            await one.execute("VACUUM (ANALYZE)", timeout=600)
            await runs.settle(one)
        pairs = [(await _enrol(connection, n), await _enrol(empty, n)) for n in range(rounds)]
        ours, theirs = (median(list(side)) for side in zip(*pairs, strict=True))
        pause = await _pauses(connection)
        seconds = max(1.0, IDLE_SECONDS * min(1.0, deliveries / DELIVERIES))
        async with dispatching(url, **runs.SETTINGS) as process:
            await process.started(connection)
            await asyncio.sleep(seconds / 2)
            before = process.cpu_seconds() + server.cpu_seconds()
            await asyncio.sleep(seconds)
            idle = (process.cpu_seconds() + server.cpu_seconds() - before) / seconds * 100
    method = METHOD.format(rounds=rounds, count=deliveries)
    method_idle = METHOD_IDLE.format(seconds=seconds, count=deliveries)
    return [
        beside("sequence.waiting", "ms", ours, "none waiting", theirs, method),
        beside("sequence.waiting.idle", "% CPU", idle, "limit", 1.0, method_idle),
        beside(
            "sequence.waiting.pause",
            "s",
            pause,
            "limit",
            PAUSE_SECONDS_MAX,
            METHOD_PAUSE.format(pauses=PAUSES, count=deliveries),
        ),
    ]


async def _enrol(connection: Connection, number: int) -> float:
    await connection.execute(
        """INSERT INTO dispatcher.contacts (tenant_id, workspace_id, key, status, updated_by)
           VALUES ('default', 'default', 'one-' || $1::int, 'active', 'bench')""",
        number,
    )
    begun = time.perf_counter()
    await connection.fetchrow("SELECT * FROM dispatcher.enrol($1, $2)", sequences.SEQUENCE, f"one-{number}")
    return (time.perf_counter() - begun) * 1e3


async def _pauses(connection: Connection) -> float:
    slowest = 0.0
    for _ in range(PAUSES):
        for verb in ("pause", "resume"):
            begun = time.perf_counter()
            await connection.fetchval(f"SELECT dispatcher.{verb}_sequence($1)", sequences.SEQUENCE)
            slowest = max(slowest, time.perf_counter() - begun)
    return slowest
