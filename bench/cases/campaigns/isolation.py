"""What a running campaign costs others: a transactional delivery of its channel, and the count of an audience."""

import asyncio
import random
import time

from bench.cases.campaigns import people
from bench.measure import Measure, beside, median, percentile
from bench.process import dispatching
from bench.server import Connection, Server, connected

DELIVERIES = people.CONTACTS
ROUNDS = 1

# Transactional deliveries on each side, some 20 ms apart, and counts of the audience.
MEASURED = 400
COUNTS = 20
GAP_SECONDS = (0.01, 0.03)
BEGUN_SHARE = 0.02
SEED = 20
COUNT_MILLISECONDS_MAX = 300.0
COUNTED_MAX = 10_000

_INSERT = """
INSERT INTO dispatcher.deliveries (idempotency_key, channel, lane, recipient, template)
VALUES ($1, 'sms', 0, '+4915110000001', '{"body": "Your code is 1234."}')
"""
_MARKED = """
SELECT d.idempotency_key, s.key_used_at
  FROM dispatcher.deliveries d JOIN dispatcher.delivery_state s USING (id)
 WHERE d.idempotency_key = ANY ($1::text[]) AND d.tenant_id = 'default' AND d.workspace_id = 'default'
   AND s.status = 'sent'
"""
_COUNT = """SELECT dispatcher.audience_count('default', 'default', '{"attributes": {"plan": "pro"}}', $1)"""
METHOD = (
    "p99 of {count} transactional deliveries, 10 to 30 ms apart, from the answer to COMMIT to the mark before the "
    "call, of the channel through which a campaign to {contacts} contacts goes in the bulk lane (one process). "
    "Reference: the same of the idle process before. Less is better; limit 3."
)
METHOD_COUNT = (
    "The slowest of {count} counts (at least {most}) of an audience of a third of {contacts} contacts by an attribute, "
    "while the campaign runs. Less is better; limit 300 ms."
)


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Measure the deliveries of all rounds as one set."""
    idle: list[float] = []
    busy: list[float] = []
    counts: list[float] = []
    measured = max(1, min(MEASURED, deliveries // 1_000))
    for _ in range(rounds):
        async with people.furnished(server, deliveries) as (url, connection):
            async with dispatching(url, **people.SETTINGS) as process:
                await process.started(connection)
                idle += await _waits(connection, "idle", measured)
                run_id = await people.deploy(connection, people.EVERYBODY)
                await people.begun(process, connection, run_id, int(deliveries * BEGUN_SHARE))
                async with connected(url) as other:
                    found = await asyncio.gather(_waits(connection, "busy", measured), _counts(other))
                busy += found[0]
                counts += found[1]
                await people.completed(process, connection, run_id)
            await people.require_sent(connection, deliveries + 2 * measured)
    method = METHOD.format(count=len(busy), contacts=deliveries)
    how = METHOD_COUNT.format(count=len(counts), most=COUNTED_MAX, contacts=deliveries)
    return [
        beside("campaign.isolation", "ms", percentile(busy, 0.99), "p99 idle", percentile(idle, 0.99), method),
        beside("campaign.isolation.p50", "ms", median(busy), "p50 idle", median(idle), "p50 of both."),
        beside("campaign.isolation.count", "ms", max(counts), "limit", COUNT_MILLISECONDS_MAX, how),
    ]


async def _waits(connection: Connection, name: str, count: int) -> list[float]:
    """Milliseconds from the commit to the mark of deliveries that are inserted one by one."""
    dice = random.Random(SEED)  # noqa: S311 - spreads the inserts
    committed: dict[str, float] = {}
    for number in range(count):
        await asyncio.sleep(dice.uniform(*GAP_SECONDS))
        key = f"{name}-{number}"
        await connection.execute(_INSERT, key)
        committed[key] = time.time()
    while True:
        rows = await connection.fetch(_MARKED, list(committed))
        if len(rows) == count:
            return [max(0.0, (at.timestamp() - committed[key]) * 1e3) for key, at in rows]
        await asyncio.sleep(GAP_SECONDS[1])


async def _counts(connection: Connection) -> list[float]:
    """Milliseconds of counts of an audience, one behind the other."""
    times: list[float] = []
    for _ in range(COUNTS):
        begun = time.perf_counter()
        await connection.fetchval(_COUNT, COUNTED_MAX)
        times.append((time.perf_counter() - begun) * 1e3)
        await asyncio.sleep(GAP_SECONDS[1])
    return times
