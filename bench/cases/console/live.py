"""What open overviews cost: a drain beside twenty of them, and beside none."""

import asyncio
from contextlib import ExitStack
from threading import Event

from bench import outbox
from bench.cases.console.browsing import Browsing
from bench.cases.http.api import make_key
from bench.measure import Measure, beside, median
from bench.process import dispatching
from bench.server import Server

DELIVERIES = 200_000
ROUNDS = 3

VIEWERS = 20
# The drain begins once all of them are open.
AHEAD_SECONDS = 4
SETTINGS = {"CHANNELS__SMS__PROVIDER": "blackhole", "CHANNELS__SMS__MARKED_MAX": "2000"}

METHOD = (
    "deliveries/s of a drain of {deliveries} with {viewers} open overviews, beside the same with none; {rounds} rounds "
    "in turn, medians. More is better; limit 0.95."
)


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Measure both sides in turn."""
    rates: dict[int, list[float]] = {VIEWERS: [], 0: []}
    for _ in range(rounds):
        for viewers, found in rates.items():
            found.append(await _drain(server, deliveries, viewers))
    method = METHOD.format(deliveries=deliveries, viewers=VIEWERS, rounds=rounds)
    watched, alone = (median(rates[viewers]) for viewers in (VIEWERS, 0))
    return [beside("console.live", "deliveries/s", watched, "no overview", alone, method)]


async def _drain(server: Server, deliveries: int, viewers: int) -> float:
    """One drain, from the moment when all deliveries are due."""
    async with outbox.outbox(server) as (url, connection):
        await outbox.fill(connection, "sms", deliveries, due_seconds=86_400)
        await outbox.settle(connection)
        async with dispatching(url, **SETTINGS) as process:
            await process.started(connection)
            key, address = make_key(url), await process.address()
            ended = Event()
            watching = [asyncio.create_task(asyncio.to_thread(_watch, address, key, ended)) for _ in range(viewers)]
            began = await connection.fetchval("SELECT now() + make_interval(secs => $1)", AHEAD_SECONDS)
            await connection.execute("UPDATE dispatcher.delivery_state SET run_at = $1 WHERE ready", began)
            await process.drained(connection, "sms")
            ended.set()
            await asyncio.gather(*watching)
        await outbox.require_sent(connection, "sms", deliveries)
        last = await connection.fetchval("SELECT max(finished_at) FROM dispatcher.delivery_state")
    return float(deliveries / (last - began).total_seconds())


def _watch(address: str, key: str, ended: Event) -> None:
    """Read a stream until the drain has ended; one that ends is opened again, as a browser does."""
    while not ended.is_set():
        with ExitStack() as stack:
            stream = stack.enter_context(Browsing(address, key)).stream()
            while not ended.is_set() and stream.readline():
                pass
