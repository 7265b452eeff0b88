"""Runs of e-mail, delay 0, SMS, end, walked end to end by one process, beside the same workflow on dbos."""

from msgspec import Struct

from bench import outbox, runs
from bench.measure import Measure, beside, median
from bench.peers import dbos
from bench.process import dispatching
from bench.server import Server

# Runs; beside them a share of as many of dbos, which takes several times as long.
DELIVERIES = 30_000
ROUNDS = 3
PEER_SHARE = 0.1
RUNS_SECONDS_MAX = 600.0
RATE_MIN = 3_000.0

METHOD = (
    "{runs} triggered beforehand, {rounds} rounds in turn with the reference, medians. Ours: e-mail, delay 0, SMS and "
    "the end on blackhole channels, rendered, marked, logged, from the first walk to the last end. Reference: dbos "
    "3.4, {theirs} workflows of two no-op steps with a sleep of 0 between them, enqueued beforehand, from the first "
    "claim to the last outcome. Limit 5."
)


class Drain(Struct, frozen=True):
    """One round: its rate, and what a run cost."""

    rate: float
    worker_microseconds: float
    postgres_microseconds: float


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Measure both sides alternately."""
    theirs = max(1, int(deliveries * PEER_SHARE))
    pairs = [(await _ours(server, deliveries), await _peer(server, theirs)) for _ in range(rounds)]
    method = METHOD.format(runs=deliveries, rounds=rounds, theirs=theirs)
    lines = (
        ("workflows", "runs/s", "rate", method),
        ("workflows.cpu_worker", "us/run", "worker_microseconds", "CPU of the worker. Less is better."),
        ("workflows.cpu_postgres", "us/run", "postgres_microseconds", "CPU of Postgres. Less is better."),
    )
    measures = []
    for case, unit, field, how in lines:
        ours, peer = (median([getattr(side, field) for side in sides]) for sides in zip(*pairs, strict=True))
        measures.append(beside(case, unit, ours, "dbos", peer, how))
    rate = median([ours.rate for ours, _ in pairs])
    return [*measures, beside("workflows.least", "runs/s", rate, "limit", RATE_MIN, "More is better.")]


async def _ours(server: Server, count: int) -> Drain:
    async with outbox.outbox(server) as (url, connection):
        await runs.put(connection, runs.plan())
        await runs.trigger(connection, count)
        await runs.settle(connection)
        async with dispatching(url, **runs.SETTINGS) as process:
            await process.started(connection)
            worker, postgres = process.cpu_seconds(), server.cpu_seconds()
            await process.until(lambda: runs.are_over(connection), "every run is over", RUNS_SECONDS_MAX)
            worker, postgres = process.cpu_seconds() - worker, server.cpu_seconds() - postgres
        await runs.require_completed(connection, count)
        seconds = await connection.fetchval(
            "SELECT extract(epoch FROM max(finished_at) - min(started_at))::float8 FROM dispatcher.runs"
        )
        return Drain(count / seconds, worker / count * 1e6, postgres / count * 1e6)


async def _peer(server: Server, count: int) -> Drain:
    async with server.database() as url:
        await dbos.fill(url, count)
        seconds, worker, postgres = await dbos.drain(server, url, count)
        return Drain(count / seconds, worker / count * 1e6, postgres / count * 1e6)
