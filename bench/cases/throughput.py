"""Pre-filled deliveries drained end to end by one process, beside pgqueuer's no-op jobs on the same server."""

from msgspec import Struct

from bench import outbox
from bench.measure import Measure, beside, median
from bench.peers import pgqueuer
from bench.process import dispatching
from bench.server import Connection, Server

DELIVERIES = 200_000
ROUNDS = 3
# CPU is counted in ticks of the kernel: a short run may see none, and there is no ratio to nothing.
TICK_SECONDS = 0.01

SETTINGS = {"CHANNELS__SMS__PROVIDER": "blackhole", "CHANNELS__SMS__MARKED_MAX": "2000"}

METHOD = (
    "{deliveries} pre-filled, {rounds} rounds in turn with the reference, medians. Ours: claim, render, mark, "
    "blackhole, flush (marked_max 2000), from the start of the instance to the last flush. Reference: pgqueuer 1.6, "
    "no-op jobs, one consumer, asyncpg, uvloop, batch 1000, its autovacuum advice, logged tables, from the first pick "
    "to the last log."
)


class Drain(Struct, frozen=True):
    """One drain: its rate, and what a delivery cost."""

    rate: float
    worker_microseconds: float
    postgres_microseconds: float


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Measure both sides alternately."""
    ours: list[Drain] = []
    theirs: list[Drain] = []
    for _ in range(rounds):
        ours.append(await dispatcher(server, deliveries, SETTINGS))
        theirs.append(await peer(server, deliveries))
    method = METHOD.format(deliveries=deliveries, rounds=rounds)
    lines = (
        ("throughput", "deliveries/s", "rate", "More is better."),
        ("throughput.cpu_worker", "us/delivery", "worker_microseconds", "CPU of the worker. Less is better."),
        ("throughput.cpu_postgres", "us/delivery", "postgres_microseconds", "CPU of Postgres. Less is better."),
    )
    return [
        beside(
            case,
            unit,
            median(getattr(one, field) for one in ours),
            "pgqueuer",
            median(getattr(one, field) for one in theirs),
            f"{what} {method}",
        )
        for case, unit, field, what in lines
    ]


async def dispatcher(server: Server, deliveries: int, settings: dict[str, str]) -> Drain:
    """One round of ours."""
    async with outbox.outbox(server) as (url, connection):
        await outbox.fill(connection, "sms", deliveries)
        return await drain_of(server, url, connection, deliveries, settings)


async def drain_of(
    server: Server, url: str, connection: Connection, deliveries: int, settings: dict[str, str]
) -> Drain:
    """Drain what is in the outbox."""
    await outbox.settle(connection)
    async with dispatching(url, **settings) as process:
        await process.started(connection)
        worker, postgres = process.cpu_seconds(), server.cpu_seconds()
        began = await connection.fetchval("SELECT min(started_at) FROM dispatcher.instances")
        await process.drained(connection, "sms")
        worker, postgres = process.cpu_seconds() - worker, server.cpu_seconds() - postgres
    await outbox.require_sent(connection, "sms", deliveries)
    ended = await connection.fetchval("SELECT max(finished_at) FROM dispatcher.delivery_state")
    return measured(deliveries, (ended - began).total_seconds(), worker, postgres)


async def peer(server: Server, jobs: int) -> Drain:
    """One round of the reference."""
    async with server.database() as url:
        await pgqueuer.fill(url, jobs)
        return measured(jobs, *await pgqueuer.drain(server, url, jobs))


def measured(count: int, seconds: float, worker_seconds: float, postgres_seconds: float) -> Drain:
    """Return a drain of so many deliveries in so many seconds."""
    worker, postgres = max(worker_seconds, TICK_SECONDS), max(postgres_seconds, TICK_SECONDS)
    return Drain(count / seconds, worker / count * 1e6, postgres / count * 1e6)
