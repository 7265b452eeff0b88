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
METHOD_EMPTY = "In turn with SELECT 1 on the same connection: what the machine adds is in both. As `campaign.progress`."


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Measure the readings of all rounds as one set."""
    during: list[float] = []
    empty: list[float] = []
    after: list[float] = []
    for _ in range(rounds):
        found = await _round(server, deliveries)
        during += found[0]
        empty += found[1]
        after += found[2]
    said = {"contacts": deliveries, "gap": GAP_SECONDS}
    how = METHOD.format(count=len(during), when="while it runs", **said)
    how_after = METHOD.format(count=len(after), when="after its end", **said)
    p99, p99_empty = percentile(during, 0.99), percentile(empty, 0.99)
    return [
        beside("campaign.progress", "ms", p99, "limit", P99_MILLISECONDS_MAX, how),
        beside("campaign.progress.p50", "ms", median(during), "p50 of SELECT 1", median(empty), METHOD_EMPTY),
        beside("campaign.progress.p99", "ms", p99, "p99 of SELECT 1", p99_empty, METHOD_EMPTY),
        beside("campaign.progress.after", "ms", percentile(after, 0.99), "limit", P99_MILLISECONDS_MAX, how_after),
    ]


async def _round(server: Server, contacts: int) -> tuple[list[float], list[float], list[float]]:
    async with people.furnished(server, contacts) as (url, connection), dispatching(url, **people.SETTINGS) as process:
        await process.started(connection)
        run_id = await people.deploy(connection, people.EVERYBODY)
        async with connected(url) as reader:

            async def over() -> bool:
                return await people.ended(connection, run_id)

            during, empty = await _read(reader, run_id, over)
            await people.completed(process, connection, run_id)
            left = iter(range(AFTER_READS))

            async def enough() -> bool:
                return next(left, None) is None

            after, _ = await _read(reader, run_id, enough)
        await people.require_sent(connection, contacts)
    return during, empty, after


async def _read(
    reader: Connection, run_id: int, over: Callable[[], Awaitable[bool]]
) -> tuple[list[float], list[float]]:
    """Milliseconds of readings until something holds, and of empty statements in turn with them."""
    times: list[float] = []
    empty: list[float] = []
    await reader.fetchrow(PROGRESS, run_id)
    await reader.fetchval("SELECT 1")
    # In turn also which of them comes first: behind a pause a statement finds everything cold.
    asked: list[tuple[list[float], str, tuple[int, ...]]] = [(times, PROGRESS, (run_id,)), (empty, "SELECT 1", ())]
    while True:
        for found, statement, arguments in asked:
            begun = time.perf_counter()
            await reader.fetchrow(statement, *arguments)
            found.append((time.perf_counter() - begun) * 1e3)
        asked.reverse()
        if await over():
            return times, empty
        await asyncio.sleep(GAP_SECONDS)
