"""Memory of one process over a million deliveries, fed as fast as it drains."""

from bench import outbox
from bench.measure import Measure, beside, median
from bench.process import Dispatcher, dispatching
from bench.server import Connection, Server

DELIVERIES = 1_000_000
ROUNDS = 1

GROWTH_MEGABYTES_MAX = 20.0
# Caches, pools and the allocator have their size after this share.
WARM_UP_SHARE = 0.2
# What is compared are medians over this share of the run, right after the warm-up and at the very end.
WINDOW_SHARE = 0.1
# Deliveries that may wait: enough that the process never starves, few enough that the table stays in memory.
WAITING_MAX = 30_000
BATCH = 5_000
STEP_SECONDS_MAX = 120.0
SETTINGS = {"CHANNELS__SMS__PROVIDER": "blackhole", "CHANNELS__SMS__MARKED_MAX": "2000"}

METHOD = (
    "RSS at the end of {deliveries} deliveries through one process, less RSS after the first 20 % (medians over 10 % "
    "of the run each); COPY in by batches of 5000 while it drains, at most 30000 waiting. Less is better; limit 20 MB."
)


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """The median of the rounds' growths."""
    found = [await _round(server, deliveries) for _ in range(rounds)]
    warm, end = (median(side) for side in zip(*found, strict=True))
    growth = median(last - first for first, last in found)
    method = METHOD.format(deliveries=deliveries)
    return [
        beside("soak", "MB growth", growth, "limit", GROWTH_MEGABYTES_MAX, method),
        beside("soak.rss", "MB", end, "RSS after warm-up", warm, method),
    ]


async def _round(server: Server, deliveries: int) -> tuple[float, float]:
    async with outbox.outbox(server) as (url, connection), dispatching(url, **SETTINGS) as process:
        await process.started(connection)
        samples: list[tuple[float, float]] = []
        batch = min(BATCH, max(1, deliveries // 20))
        for first in range(0, deliveries, batch):
            count = min(batch, deliveries - first)
            await outbox.copy_in(connection, "sms", first, count)
            await _room(process, connection)
            samples.append(((first + count) / deliveries, process.rss_megabytes()))
        await process.drained(connection, "sms")
        samples.append((1.0, process.rss_megabytes()))
        await outbox.require_sent(connection, "sms", deliveries)
    return _window(samples, WARM_UP_SHARE), _window(samples, 1.0 - WINDOW_SHARE)


async def _room(process: Dispatcher, connection: Connection) -> None:
    async def holds() -> bool:
        return await outbox.ready(connection, WAITING_MAX) < WAITING_MAX

    await process.until(holds, "there is room for more", STEP_SECONDS_MAX, step_seconds=0.02)


def _window(samples: list[tuple[float, float]], start: float) -> float:
    return median(size for share, size in samples if start <= share <= start + WINDOW_SHARE + 1e-9)
