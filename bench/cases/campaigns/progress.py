"""Reading the progress of a run of a million, while it runs and afterwards."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from bench.cases.campaigns import people
from bench.measure import Measure, beside, median, percentile
from bench.process import dispatching
from bench.server import Connection, Server, connected

DELIVERIES = people.CONTACTS
ROUNDS = 1

P99_MILLISECONDS_MAX = 5.0
GAP_SECONDS = 0.02
AFTER_READS = 500

PROGRESS = """
SELECT r.status, r.intended, r.expanded, r.sent, r.failed, r.skipped, r.cancelled, r.expired, r.held, r.pace,
       ARRAY(SELECT (c.class, c.reason, c.count) FROM dispatcher.campaign_run_reasons c WHERE c.run_id = r.id) AS why
  FROM dispatcher.campaign_runs r WHERE r.id = $1
"""
METHOD = (
    "p99 of {count} readings of the progress of a run to {contacts} contacts, {gap:g} s apart, on a connection of "
    "its own, {when}. Less is better; limit 5 ms."
)


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Measure the readings of all rounds as one set."""
    during: list[float] = []
    after: list[float] = []
    for _ in range(rounds):
        one, other = await _round(server, deliveries)
        during += one
        after += other
    said = {"contacts": deliveries, "gap": GAP_SECONDS}
    how = METHOD.format(count=len(during), when="while it runs", **said)
    how_after = METHOD.format(count=len(after), when="after its end", **said)
    return [
        beside("campaign.progress", "ms", percentile(during, 0.99), "limit", P99_MILLISECONDS_MAX, how),
        beside("campaign.progress.p50", "ms", median(during), "limit of the p99", P99_MILLISECONDS_MAX, "Its p50."),
        beside("campaign.progress.after", "ms", percentile(after, 0.99), "limit", P99_MILLISECONDS_MAX, how_after),
    ]


async def _round(server: Server, contacts: int) -> tuple[list[float], list[float]]:
    async with people.furnished(server, contacts) as (url, connection), dispatching(url, **people.SETTINGS) as process:
        await process.started(connection)
        run_id = await people.deploy(connection, people.EVERYBODY)
        async with connected(url) as reader:

            async def over() -> bool:
                return await people.ended(connection, run_id)

            during = await _read(reader, run_id, over)
            await people.completed(process, connection, run_id)
            left = iter(range(AFTER_READS))

            async def enough() -> bool:
                return next(left, None) is None

            after = await _read(reader, run_id, enough)
        await people.require_sent(connection, contacts)
    return during, after


async def _read(reader: Connection, run_id: int, over: Callable[[], Awaitable[bool]]) -> list[float]:
    """Milliseconds of readings until something holds."""
    times: list[float] = []
    await reader.fetchrow(PROGRESS, run_id)
    while True:
        begun = time.perf_counter()
        await reader.fetchrow(PROGRESS, run_id)
        times.append((time.perf_counter() - begun) * 1e3)
        if await over():
            return times
        await asyncio.sleep(GAP_SECONDS)
