"""The time of a transaction that triggers a workflow through SQL, beside one that does nothing."""

import time

from bench import outbox, runs
from bench.measure import BenchError, Measure, beside, percentile
from bench.server import Connection, Server

DELIVERIES = 2_000
ROUNDS = 1
WARM_UP = 20
MORE_MILLISECONDS_MAX = 2.0

TRIGGER = """
SELECT duplicate FROM dispatcher.trigger_workflow($1, jsonb_build_object(
    'name', 'Ann', 'email', 'ann@example.org', 'phone', '+4915112345678'), $2)
"""
METHOD = (
    "p50 of {count} transactions (BEGIN, trigger_workflow with a key of its own, COMMIT to disk) on one connection, "
    "less that of as many empty ones (BEGIN, SELECT 1, COMMIT) in turn. Less is better; limit 2 ms."
)


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Measure both kinds alternately."""
    full: list[float] = []
    empty: list[float] = []
    async with outbox.outbox(server) as (_, connection):
        await runs.put(connection, runs.plan())
        for number in range(deliveries * rounds + WARM_UP):
            seconds = await _transaction(connection, f"key-{number}"), await _transaction(connection, None)
            if number >= WARM_UP:
                full.append(seconds[0])
                empty.append(seconds[1])
    method = METHOD.format(count=deliveries * rounds)
    more = (percentile(full, 0.5) - percentile(empty, 0.5)) * 1e3
    return [
        beside("triggers", "ms more", more, "limit", MORE_MILLISECONDS_MAX, method),
        beside(
            "triggers.p99", "ms", percentile(full, 0.99) * 1e3, "empty", percentile(empty, 0.99) * 1e3, "p99 of both."
        ),
    ]


async def _transaction(connection: Connection, key: str | None) -> float:
    begun = time.perf_counter()
    async with connection.transaction():
        if key is None:
            await connection.fetchval("SELECT 1")
        elif await connection.fetchval(TRIGGER, runs.WORKFLOW, key):
            raise BenchError(f"the key {key} was taken")
    return time.perf_counter() - begun
