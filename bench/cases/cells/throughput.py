"""Two cells drain their outboxes side by side, beside one that drains as many deliveries alone."""

import asyncio
from contextlib import AsyncExitStack

from msgspec import Struct

from bench import outbox
from bench.cases import throughput
from bench.cases.throughput import SETTINGS, Drain
from bench.measure import Measure, beside, median
from bench.process import dispatching
from bench.server import Connection, Server

DELIVERIES = 200_000
ROUNDS = 3
NUMBERS = (1, 2)

METHOD = (
    "{deliveries} pre-filled, half of them in each of two cells, a Postgres and a dispatcher each, which begin "
    "together; from the first instance to the last flush; {rounds} rounds in turn with the reference, medians. "
    "Reference: the same in one database, as in `throughput`. "
)


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Measure both alternately."""
    both, one = [], []
    with Server() as second:
        for _ in range(rounds):
            both.append(await _cells((server, second), deliveries))
            one.append(await throughput.dispatcher(server, deliveries, SETTINGS))
    method = METHOD.format(deliveries=deliveries, rounds=rounds)
    lines = (
        ("cells", "deliveries/s", "rate", "More is better; limit 1.0."),
        ("cells.cpu_worker", "us/delivery", "worker_microseconds", "CPU of the workers. Less is better."),
        ("cells.cpu_postgres", "us/delivery", "postgres_microseconds", "CPU of Postgres. Less is better; limit 1.15."),
    )
    return [
        beside(
            case,
            unit,
            median(getattr(drain, field) for drain in both),
            "one cell",
            median(getattr(drain, field) for drain in one),
            f"{method}{what}",
        )
        for case, unit, field, what in lines
    ]


async def _cells(servers: tuple[Server, ...], deliveries: int) -> Drain:
    """One round of several cells, each with its part of the deliveries."""
    part = deliveries // len(servers)
    async with AsyncExitStack() as stack:
        outboxes = [await stack.enter_async_context(outbox.outbox(server)) for server in servers]
        for _, connection in outboxes:
            await outbox.fill(connection, "sms", part)
            await outbox.settle(connection)
        ends = await asyncio.gather(
            *(
                _drain(server, number, url, connection, part)
                for number, server, (url, connection) in zip(NUMBERS, servers, outboxes, strict=True)
            )
        )
    worker, postgres = sum(one.worker for one in ends), sum(one.postgres for one in ends)
    seconds = max(one.ended for one in ends) - min(one.began for one in ends)
    return throughput.measured(part * len(servers), seconds, worker, postgres)


class _End(Struct, frozen=True):
    """When a cell began and ended, by the machine's clock, and the CPU of its dispatcher and its Postgres."""

    began: float
    ended: float
    worker: float
    postgres: float


async def _drain(server: Server, number: int, url: str, connection: Connection, count: int) -> _End:
    async with dispatching(url, CELL__NUMBER=str(number), **SETTINGS) as process:
        await process.started(connection)
        worker, postgres = process.cpu_seconds(), server.cpu_seconds()
        began = await connection.fetchval("SELECT min(started_at) FROM dispatcher.instances")
        await process.drained(connection, "sms")
        worker, postgres = process.cpu_seconds() - worker, server.cpu_seconds() - postgres
    await outbox.require_sent(connection, "sms", count)
    ended = await connection.fetchval("SELECT max(finished_at) FROM dispatcher.delivery_state")
    return _End(began.timestamp(), ended.timestamp(), worker, postgres)
