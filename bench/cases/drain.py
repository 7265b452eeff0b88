"""SIGTERM under full load: nothing is held, nothing goes out twice, and the process is gone in time."""

import asyncio
import random
import tempfile
import time
from pathlib import Path

from bench import outbox
from bench.measure import BenchError, Measure, beside, median
from bench.process import Dispatcher, dispatching
from bench.server import Connection, Server
from dispatcher.selftest.programs import Provider

# So many wait when a process is started; it sends up to 8,000 a second.
DELIVERIES = 20_000
# How often it is told to stop.
ROUNDS = 50

GRACE_SECONDS = 10.0
# The provider answers within this, which is well within the grace.
ANSWER_MILLISECONDS_MAX = 500
WORK_SECONDS_MAX = 60.0
# Between the first call under way and the signal.
DELAY_SECONDS_MAX = 1.0
SEED = 3
SETTINGS = {
    "CHANNELS__SMS__PROVIDER": "ledger",
    "CHANNELS__SMS__MARKED_MAX": "2000",
    "INSTANCE__GRACE_SECONDS": str(GRACE_SECONDS),
}

METHOD = (
    "From SIGTERM to the exit, {rounds} times on one database with {deliveries} deliveries due at each start and 1600 "
    "calls under way, each of which the provider answers within 500 ms. One that is held, still claimed, lost, or "
    "accepted twice fails the case. Less is better; limit 1."
)


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """All on one database, which is drained at the end."""
    dice = random.Random(SEED)  # noqa: S311 - spreads the signals
    with tempfile.TemporaryDirectory(prefix="dispatcher-bench-") as folder:
        arguments = ["--delay-ms-max", str(ANSWER_MILLISECONDS_MAX), "--seed", str(SEED)]
        async with (
            outbox.outbox(server) as (url, connection),
            Provider(Path(folder) / "books", arguments) as provider,
        ):
            settings = SETTINGS | {"CHANNELS__SMS__OPTIONS__PORT": str(provider.port)}
            exits: list[float] = []
            written = 0
            for _ in range(rounds):
                missing = deliveries - await outbox.ready(connection, deliveries)
                await outbox.copy_in(connection, "sms", written, missing)
                written += missing
                exits.append(await _drain(url, connection, settings, dice))
            async with dispatching(url, **settings) as process:
                await process.drained(connection, "sms")
            await outbox.require_sent(connection, "sms", written)
            _require_once(provider, written)
    method = METHOD.format(rounds=rounds, deliveries=deliveries)
    return [
        beside("drain", "s at most", max(exits), "grace", GRACE_SECONDS, method),
        beside("drain.p50", "s", median(exits), "grace", GRACE_SECONDS, method),
    ]


async def _drain(url: str, connection: Connection, settings: dict[str, str], dice: random.Random) -> float:
    """Start it, wait for calls under way, and tell it to stop; answers how long it took."""
    async with dispatching(url, **settings) as process:
        await _at_work(process, connection)
        await asyncio.sleep(dice.uniform(0, DELAY_SECONDS_MAX))
        began = time.monotonic()
        await process.stop()
        seconds = time.monotonic() - began
    left = await connection.fetchrow(
        """
        SELECT count(*) FILTER (WHERE held) AS held, count(*) FILTER (WHERE NOT held AND token IS NOT NULL) AS claimed
          FROM dispatcher.delivery_state WHERE status = 'queued'
        """
    )
    if left is None or left["held"] or left["claimed"]:
        raise BenchError(f"a drain left {left}")
    return seconds


async def _at_work(process: Dispatcher, connection: Connection) -> None:
    """Return when calls are under way; when nothing is left to do there are none."""

    async def calling() -> bool:
        return bool(
            await connection.fetchval(
                """
                SELECT EXISTS (SELECT FROM dispatcher.claims c JOIN dispatcher.delivery_state s ON s.id = ANY (c.ids)
                                WHERE s.token = c.token AND s.marked AND s.status = 'queued')
                """
            )
        )

    await process.until(calling, "calls are under way", WORK_SECONDS_MAX, 0.01)


def _require_once(provider: Provider, deliveries: int) -> None:
    entries = provider.entries()
    twice = sum(entry.accepted != 1 for entry in entries.values())
    if twice or len(entries) != deliveries:
        raise BenchError(f"of {deliveries} deliveries {len(entries)} were accepted, {twice} of them more than once")
