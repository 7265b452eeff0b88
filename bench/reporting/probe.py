"""What plots show: a drain over its time with the cost of its parts, and the latency of single inserts."""

import asyncio
import re
import urllib.request

from msgspec import Struct

from bench import outbox
from bench.cases import latency, throughput
from bench.process import Dispatcher, dispatching
from bench.server import Server

DELIVERIES = 200_000
INSERTS = 200
# Half of a second's flushes are some ten: a finer step would show single ones.
STEP_SECONDS = 0.25
PARTS = ("claim", "render", "mark", "call", "flush")
METRICS_SECONDS_MAX = 10.0
_sum = re.compile(r"^dispatcher_(\w+)_seconds_sum(?:\{[^}]*\})? (\S+)$", re.MULTILINE)


class Probe(Struct, frozen=True):
    """The series of the plots: deliveries a second over time, milliseconds, and microseconds a delivery by part."""

    rates: list[tuple[float, float]]
    latencies: list[float]
    cpu: dict[str, float]
    waits: dict[str, float]


async def probe(server: Server, deliveries: int) -> Probe:
    """Measure once; `deliveries` is 0 for the usual number."""
    rates, cpu, waits = await _drain(server, deliveries or DELIVERIES)
    _, latencies = await latency.insert_and_wait(server, min(deliveries or INSERTS, INSERTS), 1.0)
    return Probe(rates, latencies, cpu, waits)


async def _drain(
    server: Server, deliveries: int
) -> tuple[list[tuple[float, float]], dict[str, float], dict[str, float]]:
    async with outbox.outbox(server) as (url, connection):
        await outbox.fill(connection, "sms", deliveries)
        await outbox.settle(connection)
        async with dispatching(url, **throughput.SETTINGS) as process:
            await process.started(connection)
            worker, postgres = process.cpu_seconds(), server.cpu_seconds()
            began = await connection.fetchval("SELECT min(started_at) FROM dispatcher.instances")
            await process.drained(connection, "sms")
            cpu = {"process": process.cpu_seconds() - worker, "Postgres": server.cpu_seconds() - postgres}
            waits = await _waits(process)
        await outbox.require_sent(connection, "sms", deliveries)
        rows = await connection.fetch(
            """
            SELECT floor(extract(epoch FROM finished_at - $1) / $2)::int AS step, count(*) AS ended
              FROM dispatcher.delivery_state GROUP BY step ORDER BY step
            """,
            began,
            STEP_SECONDS,
        )
    rates = [((row["step"] + 0.5) * STEP_SECONDS, row["ended"] / STEP_SECONDS) for row in rows]
    return rates, _each(cpu, deliveries), _each(waits, deliveries)


async def _waits(process: Dispatcher) -> dict[str, float]:
    """The seconds spent in each part, as the process counts them; parts run side by side."""
    address = await process.address()

    def read() -> str:
        with urllib.request.urlopen(f"{address}/metrics", timeout=METRICS_SECONDS_MAX) as answer:  # noqa: S310 - our own
            return str(answer.read().decode())

    found = dict.fromkeys(PARTS, 0.0)
    for name, seconds in _sum.findall(await asyncio.to_thread(read)):
        if name in found:
            found[name] += float(seconds)
    return found


def _each(seconds: dict[str, float], deliveries: int) -> dict[str, float]:
    return {name: value / deliveries * 1e6 for name, value in seconds.items()}
