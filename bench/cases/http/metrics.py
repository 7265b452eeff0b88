"""The cost of a scrape: time and series of /metrics with many channels and tenants."""

import time

import aiohttp

from bench import outbox
from bench.measure import BenchError, Measure, beside, median
from bench.process import dispatching
from bench.server import Connection, Server

DELIVERIES = 4_000
ROUNDS = 1

SCRAPES = 50
MILLISECONDS_MAX = 50.0
SERIES_MAX = 20_000
# Channels and tenants: 200 pairs, and then with the built-in ones as many channels as a process may serve, and far more
# pairs than have series of their own.
SHAPES = (("metrics", 20, 10), ("metrics.wide", 55, 200))
# So that deliveries come to all kinds of ends.
FAULTS = {"REFUSE": "0.2", "RETRY": "0.2", "UNKNOWN": "0.1"}
SETTLE_SECONDS_MAX = 300.0

METHOD = (
    "GET /metrics {scrapes} times of a process that has delivered by {channels} channels for {tenants} tenants each, a "
    "fifth of the attempts refused, a fifth tried again, a tenth unknown: the median of the times that a client sees. "
    "Less is better; at most 50 ms."
)
METHOD_SERIES = "The samples in that answer. Less is better; at most 20,000, however many tenants there are."


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Measure each shape; the times of all rounds are one set."""
    measures: list[Measure] = []
    for name, channels, tenants in SHAPES:
        times: list[float] = []
        series = 0
        for _ in range(rounds):
            found, series = await _scrapes(server, channels, tenants, max(1, deliveries // (channels * tenants)))
            times += found
        how = METHOD.format(scrapes=SCRAPES, channels=channels, tenants=tenants)
        measures += [
            beside(name, "ms", median(times), "limit", MILLISECONDS_MAX, how),
            beside(f"{name}.series", "series", series, "limit", SERIES_MAX, METHOD_SERIES),
        ]
    return measures


async def _scrapes(server: Server, channels: int, tenants: int, each: int) -> tuple[list[float], int]:
    """Return the milliseconds of each scrape, and the number of series."""
    names = [f"channel_{number}" for number in range(channels)]
    settings = {"RETRY__BASE_SECONDS": "0.05"}
    for name in names:
        settings[f"CHANNELS__{name.upper()}__PROVIDER"] = "blackhole"
        settings |= {f"CHANNELS__{name.upper()}__FAULTS__{fault}": share for fault, share in FAULTS.items()}
    async with outbox.outbox(server) as (url, connection), dispatching(url, **settings) as process:
        await process.started(connection)
        await _fill(connection, names, tenants, each)
        await process.until(lambda: _is_settled(connection), "all have ended or are held", SETTLE_SECONDS_MAX)
        async with aiohttp.ClientSession() as session:
            text, times = "", []
            for _ in range(SCRAPES):
                began = time.perf_counter()
                async with session.get(f"{await process.address()}/metrics") as answer:
                    text = await answer.text()
                times.append((time.perf_counter() - began) * 1e3)
    _require(text, names)
    return times, sum(1 for line in text.splitlines() if not line.startswith("#"))


async def _fill(connection: Connection, channels: list[str], tenants: int, each: int) -> None:
    await connection.execute(
        "INSERT INTO dispatcher.deliveries (tenant_id, idempotency_key, channel, recipient, template) "
        "SELECT 'tenant-' || tenant, concat_ws('-', channel, i), channel, '+4915110000000', $4::jsonb "
        "FROM unnest($1::text[]) AS channel, generate_series(1, $2::int) AS tenant, generate_series(1, $3::int) AS i",
        channels,
        tenants,
        each,
        '{"body": "Hello"}',
    )


async def _is_settled(connection: Connection) -> bool:
    asked = "SELECT NOT EXISTS (SELECT FROM dispatcher.delivery_state WHERE status = 'queued' AND NOT held)"
    return bool(await connection.fetchval(asked))


def _require(text: str, channels: list[str]) -> None:
    """Every channel is there, with what has become of its deliveries."""
    missing = [name for name in channels if f'dispatcher_outcomes_total{{channel="{name}"' not in text]
    if missing:
        raise BenchError(
            f"{len(missing)} of {len(channels)} channels have no outcomes in the answer, {missing[0]} first"
        )
