"""The cost of one tenant's expensive templates for another tenant: its latency beside them, and that of /healthz."""

import asyncio
import json
import time

import aiohttp

from bench import outbox
from bench.measure import BenchError, Measure, beside, median, percentile
from bench.process import Dispatcher, dispatching
from bench.server import Connection, Server

DELIVERIES = 2_000
ROUNDS = 1

# Some 30 ms of a processor: filters over a long text, again and again.
EXPENSIVE = json.dumps(
    {
        "body": "{% capture text %}"
        "{% for i in (1..400) %}a line of some length, number {{ i }}\n{% endfor %}"
        "{% endcapture %}"
        "{% for i in (1..60) %}{% assign text = text | newline_to_br | replace: '<br />', '' %}{% endfor %}"
        "{{ text | size }}"
    }
)
PLAIN = '{"body": "Hello"}'
# One of them every so often, as long as most of the expensive ones are queued.
MEASURED = 300
GAP_SECONDS = 0.05
P99_MILLISECONDS_MAX = 250.0
HEALTH_MILLISECONDS_MAX = 100.0
HEALTH_SECONDS_MAX = 60.0
SETTINGS = {"CHANNELS__SMS__PROVIDER": "capture"}

METHOD = (
    "{measured} transactional deliveries of one tenant, {gap:g} s apart, from the answer to COMMIT to captured_at of "
    "the capture channel, while {deliveries} deliveries of another tenant on the same channel wait for templates that "
    "take 30 ms each; beside it the median of the same process before them. Less is better; p99 at most 250 ms."
)
METHOD_HEALTH = "GET /healthz once after the other over that time. Less is better; p99 at most 100 ms."
METHOD_HOLD = "The gauge dispatcher_loop_hold_seconds at the end. Less is better; at most 20 ms."


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Measure the deliveries of all rounds as one set."""
    idle: list[float] = []
    busy: list[float] = []
    health: list[float] = []
    holds: list[float] = []
    measured = min(MEASURED, deliveries)
    for _ in range(rounds):
        async with outbox.outbox(server) as (url, connection), dispatching(url, **SETTINGS) as process:
            await process.started(connection)
            idle += await _waits(connection, "idle", measured)
            await _fill(connection, deliveries)
            asking = asyncio.create_task(_ask(await process.address()))
            busy += await _waits(connection, "busy", measured)
            asking.cancel()
            health += await asking
            holds.append(await _hold(await process.address()))
            await _require(connection, process, deliveries)
    how = METHOD.format(measured=measured, gap=GAP_SECONDS, deliveries=deliveries)
    p99, asked = percentile(busy, 0.99), percentile(health, 0.99)
    return [
        beside("expensive.p50", "ms", median(busy), "p50 idle", median(idle), how),
        beside("expensive.p99", "ms", p99, "limit", P99_MILLISECONDS_MAX, how),
        beside("expensive.health", "ms", asked, "limit", HEALTH_MILLISECONDS_MAX, METHOD_HEALTH),
        beside("expensive.hold", "ms", max(holds) * 1e3, "limit", 20.0, METHOD_HOLD),
    ]


async def _fill(connection: Connection, deliveries: int) -> None:
    await connection.execute(
        "INSERT INTO dispatcher.deliveries (tenant_id, idempotency_key, channel, lane, recipient, template) "
        "SELECT 'greedy', 'expensive-' || i, 'sms', 0, '+4915110000000', $1::jsonb FROM generate_series(1, $2) AS i",
        EXPENSIVE,
        deliveries,
    )


async def _waits(connection: Connection, name: str, count: int) -> list[float]:
    """Milliseconds from commit to provider of deliveries that are inserted one by one."""
    committed: dict[str, float] = {}
    for number in range(count):
        key = f"{name}-{number}"
        await connection.execute(
            "INSERT INTO dispatcher.deliveries (tenant_id, idempotency_key, channel, lane, recipient, template) "
            "VALUES ('other', $1, 'sms', 0, '+4915110000001', $2::jsonb)",
            key,
            PLAIN,
        )
        committed[key] = time.time()
        await asyncio.sleep(GAP_SECONDS)
    while True:
        rows = await connection.fetch(
            "SELECT idempotency_key, captured_at FROM dispatcher.captured_messages WHERE idempotency_key LIKE $1",
            f"{name}-%",
        )
        if len(rows) == count:
            return [(at.timestamp() - committed[key]) * 1e3 for key, at in rows]
        await asyncio.sleep(GAP_SECONDS)


async def _ask(address: str) -> list[float]:
    """Ask for /healthz until told to stop; milliseconds of each answer."""
    times: list[float] = []
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(HEALTH_SECONDS_MAX)) as session:
        try:
            while True:
                began = time.perf_counter()
                async with session.get(f"{address}/healthz") as answer:
                    await answer.read()
                times.append((time.perf_counter() - began) * 1e3)
                await asyncio.sleep(GAP_SECONDS)
        except asyncio.CancelledError:
            return times


async def _hold(address: str) -> float:
    async with aiohttp.ClientSession() as session, session.get(f"{address}/metrics") as answer:
        lines = (await answer.text()).splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("dispatcher_loop_hold_seconds "))


async def _require(connection: Connection, process: Dispatcher, deliveries: int) -> None:
    """The expensive ones were sent, and nothing was held or begun anew on the way."""
    await process.drained(connection, "sms")
    [(sent, held)] = await connection.fetch(
        "SELECT count(*) FILTER (WHERE status = 'sent'), count(*) FILTER (WHERE held) FROM dispatcher.delivery_state s "
        "JOIN dispatcher.deliveries d USING (id) WHERE d.tenant_id = 'greedy'"
    )
    if (sent, held) != (deliveries, 0):
        raise BenchError(f"of {deliveries} expensive deliveries {sent} were sent, and {held} are held")
