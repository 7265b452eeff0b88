"""CPU of an idle process, and the time from the commit of a single INSERT to the provider."""

import asyncio
import random
import time

from bench import outbox
from bench.measure import BenchError, Measure, beside, median, percentile
from bench.process import dispatching
from bench.server import Connection, Server

DELIVERIES = 300
ROUNDS = 1

IDLE_SECONDS = 10.0
IDLE_CPU_PERCENT_MAX = 1.0
P50_MILLISECONDS_MAX = 50.0
GAP_SECONDS = (0.02, 0.06)
# Every so many inserts a pause, after which the process has fallen asleep altogether.
PAUSE_EVERY = 25
PAUSE_SECONDS = 2.5
SEED = 20

METHOD_IDLE = "CPU over {seconds:g} s without work, process and server apart, medians of {rounds} rounds. Limit 1 %."
METHOD = (
    "{count} single INSERTs 20 to 60 ms apart, every {every}th after {pause:g} s of silence; from the answer to COMMIT "
    "to captured_at of the capture channel, both read from this machine's one clock. Less is better; limit 50 ms."
)


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Measure the inserts of all rounds as one set."""
    idle: list[tuple[float, float]] = []
    waits: list[float] = []
    rested: list[float] = []
    seconds = max(1.0, IDLE_SECONDS * min(1.0, deliveries / DELIVERIES))
    for _ in range(rounds):
        used, found = await insert_and_wait(server, deliveries, seconds)
        idle.append(used)
        waits += found
        rested += found[::PAUSE_EVERY]
    return _measures(idle, waits, rested, METHOD_IDLE.format(seconds=seconds, rounds=rounds))


async def insert_and_wait(server: Server, deliveries: int, seconds: float) -> tuple[tuple[float, float], list[float]]:
    """CPU of process and server in percent while there is nothing to do, and the wait of each insert."""
    settings = {"CHANNELS__SMS__PROVIDER": "capture"}
    async with outbox.outbox(server) as (url, connection), dispatching(url, **settings) as process:
        await process.started(connection)
        await asyncio.sleep(PAUSE_SECONDS)
        before = process.cpu_seconds(), server.cpu_seconds()
        await asyncio.sleep(seconds)
        used = process.cpu_seconds() - before[0], server.cpu_seconds() - before[1]
        committed = await _insert(connection, deliveries)
        await process.drained(connection, "sms")
        return (used[0] / seconds * 100, used[1] / seconds * 100), await _waits(connection, committed)


def _measures(idle: list[tuple[float, float]], waits: list[float], rested: list[float], method: str) -> list[Measure]:
    process, postgres = (median(side) for side in zip(*idle, strict=True))
    p50 = median(waits)
    how = METHOD.format(count=len(waits), every=PAUSE_EVERY, pause=PAUSE_SECONDS)
    return [
        beside("latency.idle_cpu", "%", process, "limit", IDLE_CPU_PERCENT_MAX, method),
        beside("latency.idle_cpu_postgres", "%", postgres, "limit of the process", IDLE_CPU_PERCENT_MAX, method),
        beside("latency.p50", "ms", p50, "limit", P50_MILLISECONDS_MAX, how),
        beside("latency.p50_after_pause", "ms", median(rested), "limit", P50_MILLISECONDS_MAX, how),
        beside("latency.p95", "ms", percentile(waits, 0.95), "p50", p50, how),
        beside("latency.p99", "ms", percentile(waits, 0.99), "p50", p50, how),
    ]


async def _insert(connection: Connection, count: int) -> dict[str, float]:
    """Insert one by one; answers when each COMMIT was answered, by key."""
    dice = random.Random(SEED)  # noqa: S311 - spreads the inserts
    committed: dict[str, float] = {}
    for number in range(count):
        await asyncio.sleep(dice.uniform(*GAP_SECONDS) if number % PAUSE_EVERY else PAUSE_SECONDS)
        key = f"latency-{number}"
        await connection.execute(
            "INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template, variables) "
            'VALUES ($1, \'sms\', \'+4915110000000\', $2, \'{"name": "Ann", "order": "A-1", "day": "Monday"}\')',
            key,
            outbox.TEMPLATE,
        )
        committed[key] = time.time()
    return committed


async def _waits(connection: Connection, committed: dict[str, float]) -> list[float]:
    """Milliseconds from commit to provider, in the order of the inserts."""
    rows = await connection.fetch("SELECT idempotency_key, captured_at FROM dispatcher.captured_messages")
    captured = {key: at.timestamp() for key, at in rows}
    if len(rows) != len(committed) or captured.keys() != committed.keys():
        raise BenchError(f"{len(rows)} messages for {len(committed)} inserts")
    return [(captured[key] - at) * 1e3 for key, at in committed.items()]
