"""Enrolments that are due in the same minute, and a transactional workflow that is triggered in the middle of them."""

import asyncio
import json
import time

from bench import outbox, runs, sequences
from bench.measure import BenchError, Measure, beside, median
from bench.process import dispatching
from bench.server import Connection, Server, connected
from dispatcher.plans.plan import Plan, Send

# Enrolments; `deliveries` of the command line.
DELIVERIES = 100_000
ROUNDS = 1
RATE_MIN = 8_000.0
FIRST_MS_MAX = 500.0
SECONDS_MAX = 600.0
# Triggers in the middle of the wave.
TRIGGERS = 20
WORKFLOW = "urgent"

METHOD = (
    "{count} enrolments of one step, due at once, on a blackhole channel: from the first walk to the last end, "
    "{rounds} rounds, median. More is better."
)
METHOD_FIRST = (
    "From the trigger of a transactional workflow in the middle of the wave to the mark of its first message, the "
    "slowest of {triggers}. Less is better."
)


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Let the wave come, so often."""
    found = [await _storm(server, deliveries) for _ in range(rounds)]
    rate, first = (median(list(side)) for side in zip(*found, strict=True))
    method = METHOD.format(count=deliveries, rounds=rounds)
    method_first = METHOD_FIRST.format(triggers=TRIGGERS)
    return [
        beside("sequence.storm", "steps/s", rate, "limit", RATE_MIN, method),
        beside("sequence.storm.first", "ms", first, "limit", FIRST_MS_MAX, method_first),
    ]


def _urgent() -> Plan:
    say = Send(step=1, channel="email", to=("ann@example.org",), parts={"subject": "Now", "text": "Now"}, lane=0)
    return Plan(name=WORKFLOW, entry="say", nodes={"say": say})


async def _storm(server: Server, count: int) -> tuple[float, float]:
    async with outbox.outbox(server) as (url, connection):
        await sequences.contacts(connection, count)
        await sequences.publish(connection, (0,))
        await runs.put(connection, _urgent())
        await sequences.enrol_all(connection, count)
        await runs.settle(connection)
        async with dispatching(url, **runs.SETTINGS) as process, connected(url) as application:
            await process.started(connection)
            triggering = asyncio.create_task(_triggers(application, count))
            # Each look reads the dead entries of an index: at 20 a second a tenth of what the server does for a step.
            await process.until(lambda: runs.are_over(connection), "every end", SECONDS_MAX, step_seconds=0.25)
            first = await triggering
        sent = await connection.fetchval("SELECT count(*) FROM dispatcher.delivery_state WHERE status = 'sent'")
        if sent != count + TRIGGERS:
            raise BenchError(f"{sent} of {count + TRIGGERS} messages were sent")
        seconds = await connection.fetchval(
            """SELECT extract(epoch FROM max(finished_at) - min(started_at))::float8 FROM dispatcher.runs
                WHERE contact_id IS NOT NULL"""
        )
        return count / seconds, first


async def _triggers(connection: Connection, count: int) -> float:
    """Trigger while the wave is under way; return the slowest first mark, in milliseconds."""
    begun = "SELECT count(*) FROM (SELECT FROM dispatcher.runs WHERE started_at IS NOT NULL LIMIT $1) AS few"
    while await connection.fetchval(begun, count // 10) < count // 10:  # noqa: ASYNC110 - another process works
        await asyncio.sleep(0.02)
    slowest = 0.0
    marked = """SELECT EXISTS (SELECT FROM dispatcher.deliveries d JOIN dispatcher.delivery_state s USING (id)
                                WHERE d.run_id = $1 AND s.attempt > 0)"""
    for _ in range(TRIGGERS):
        asked = time.perf_counter()
        run = await connection.fetchval(
            "SELECT execution_id FROM dispatcher.trigger_workflow($1, $2)", WORKFLOW, json.dumps({})
        )
        while not await connection.fetchval(marked, run):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.005)
        slowest = max(slowest, (time.perf_counter() - asked) * 1e3)
    return slowest
