"""Two cells drain their outboxes side by side, beside one that drains as many deliveries alone."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack

from bench import outbox
from bench.cases import throughput
from bench.cases.throughput import SETTINGS, Drain
from bench.measure import Measure, beside, median
from bench.process import dispatching
from bench.server import Connection, Server

DELIVERIES = 200_000
ROUNDS = 3

# Until every dispatcher has started: one that starts takes a core from one that sends.
PAUSE = "SELECT dispatcher.pause('channel', 'sms', NULL, NULL, 'bench', 'until all have started')"
RESUME = "SELECT dispatcher.resume('channel', 'sms', NULL, NULL, 'bench'), clock_timestamp()"

METHOD = (
    "{deliveries} pre-filled, half of them in each of two cells, a Postgres and a dispatcher each, which begin "
    "together; from the end of a pause to the last flush; {rounds} rounds in turn with the reference, medians. "
    "Reference: the same in one cell. "
)


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Measure both alternately."""
    both, one = [], []
    with Server() as second:
        for _ in range(rounds):
            both.append(await _drain((server, second), deliveries))
            one.append(await _drain((server,), deliveries))
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


async def _drain(servers: Sequence[Server], deliveries: int) -> Drain:
    """One round: each cell has its part of the deliveries, and all begin together."""
    part = deliveries // len(servers)
    async with AsyncExitStack() as stack:
        processes, connections = [], list[Connection]()
        for number, server in enumerate(servers, 1):
            url, connection = await stack.enter_async_context(outbox.outbox(server))
            await outbox.fill(connection, "sms", part)
            await outbox.settle(connection)
            await connection.execute(PAUSE)
            process = await stack.enter_async_context(dispatching(url, CELL__NUMBER=str(number), **SETTINGS))
            await process.started(connection)
            processes.append(process)
            connections.append(connection)
        worker = sum(process.cpu_seconds() for process in processes)
        postgres = sum(server.cpu_seconds() for server in servers)
        began = await asyncio.gather(*(connection.fetchrow(RESUME) for connection in connections))
        await asyncio.gather(
            *(process.drained(one, "sms") for process, one in zip(processes, connections, strict=True))
        )
        worker = sum(process.cpu_seconds() for process in processes) - worker
        postgres = sum(server.cpu_seconds() for server in servers) - postgres
        ended = [await one.fetchval("SELECT max(finished_at) FROM dispatcher.delivery_state") for one in connections]
        for one in connections:
            await outbox.require_sent(one, "sms", part)
    seconds = (max(ended) - min(row[1] for row in began if row is not None)).total_seconds()
    return throughput.measured(part * len(servers), seconds, worker, postgres)
