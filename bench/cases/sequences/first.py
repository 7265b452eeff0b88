"""The first step of an enrolment that is due at once: how soon after the commit its message is marked."""

import asyncio
import random
import time

from bench import outbox, runs, sequences
from bench.measure import BenchError, Measure, beside, percentile
from bench.process import dispatching
from bench.server import Connection, Server

# Enrolments, one by one; `deliveries` of the command line.
DELIVERIES = 300
ROUNDS = 1
FIRST_MS_MAX = 250.0
# Long enough for each to find an idle walker, which has asked to be woken or has not yet.
GAP_SECONDS = (0.01, 0.2)
SECONDS_MAX = 60.0
SEED = 15

_MARKED = """
SELECT c.key, s.key_used_at FROM dispatcher.deliveries d JOIN dispatcher.delivery_state s USING (id)
  JOIN dispatcher.contacts c ON c.id = d.contact_id
 WHERE s.status = 'sent'
"""
METHOD = (
    "{count} contacts enrolled one by one, 10 to 200 ms apart, into a sequence with a step that is due at once: "
    "the slowest from the answer to COMMIT to the mark before the call, on an idle process. Less is better."
)


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Enrol so many contacts in each round, and take them as one set."""
    waits = [wait for _ in range(rounds) for wait in await _firsts(server, deliveries)]
    method = METHOD.format(count=len(waits))
    return [
        beside("sequence.first", "ms", max(waits), "limit", FIRST_MS_MAX, method),
        beside("sequence.first.p99", "ms", percentile(waits, 0.99), "slowest", max(waits), "p99 of the same."),
    ]


async def _firsts(server: Server, count: int) -> list[float]:
    async with outbox.outbox(server) as (url, connection):
        # The first one opens connections and prepares statements.
        await sequences.contacts(connection, count + 1)
        await sequences.publish(connection, (0,))
        await runs.settle(connection)
        async with dispatching(url, **runs.SETTINGS) as process:
            await process.started(connection)
            committed = await _enrol(connection, count)

            async def sent() -> bool:
                return len(await connection.fetch(_MARKED)) == count + 1

            await process.until(sent, "all are sent", SECONDS_MAX)
        marked = {row["key"]: row["key_used_at"].timestamp() for row in await connection.fetch(_MARKED)}
        return [max(0.0, (marked[key] - at) * 1e3) for key, at in committed.items()]


async def _enrol(connection: Connection, count: int) -> dict[str, float]:
    """Enrol one contact after the other; return when each was committed, but for the first."""
    dice = random.Random(SEED)  # noqa: S311 - spreads the enrolments
    committed: dict[str, float] = {}
    for number in range(1, count + 2):
        await asyncio.sleep(dice.uniform(*GAP_SECONDS))
        found = await connection.fetchrow("SELECT * FROM dispatcher.enrol($1, $2)", sequences.SEQUENCE, f"c{number}")
        if found is None:
            raise BenchError(f"contact c{number} was not enrolled")
        committed[f"c{number}"] = time.time()
    del committed["c1"]
    return committed
