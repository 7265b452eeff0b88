"""Contacts enrolled in one statement, beside a bare INSERT ... SELECT of as many rows with the same indexes."""

import time

from bench import outbox, sequences
from bench.measure import Measure, beside, median
from bench.server import Connection, Server

# Contacts; `deliveries` of the command line.
DELIVERIES = 100_000
ROUNDS = 3

METHOD = (
    "{count} contacts enrolled by dispatcher.enrol_audience, {rounds} rounds in turn with the reference, medians. "
    "Reference: INSERT ... SELECT of as many rows as enrolments have them into a table like runs, with its indexes. "
    "More is better; limit 0.25."
)
BARE = """
    CREATE TABLE dispatcher.bare (LIKE dispatcher.runs INCLUDING ALL EXCLUDING CONSTRAINTS);
"""


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Measure both sides alternately, each on a database of its own."""
    pairs = [(await _enrol(server, deliveries), await _bare(server, deliveries)) for _ in range(rounds)]
    ours, bare = (median(list(side)) for side in zip(*pairs, strict=True))
    method = METHOD.format(count=deliveries, rounds=rounds)
    return [beside("sequence.enrol", "contacts/s", ours, "bare INSERT", bare, method)]


async def _enrol(server: Server, count: int) -> float:
    async with outbox.outbox(server) as (_, connection):
        await _prepare(connection, count)
        begun = time.perf_counter()
        await sequences.enrol_all(connection, count)
        return count / (time.perf_counter() - begun)


async def _prepare(connection: Connection, count: int) -> None:
    await sequences.contacts(connection, count)
    await sequences.publish(connection, (3, 7))
    await connection.execute("CHECKPOINT")


async def _bare(server: Server, count: int) -> float:
    async with outbox.outbox(server) as (_, connection):
        await _prepare(connection, count)
        await connection.execute(BARE)
        begun = time.perf_counter()
        await connection.execute(
            """
            INSERT INTO dispatcher.bare (id, workflow_id, version_id, contact_id, anchor, available_at, status, lane,
                                         tenant_id, workspace_id, workflow, triggered_by, input, state)
            SELECT c.id, 1, 1, c.id, now(), now() + interval '3 days', 'waiting', 2, 'default', 'default', 'drip',
                   'bench', '{}', '{"cursor": {"day-1": {"since": 1795089600.123456, "until": 1795348800.123456,
                                                         "standing": "delaying"}}}'
              FROM dispatcher.contacts c ORDER BY c.id
            """,
            timeout=600,
        )
        return count / (time.perf_counter() - begun)
