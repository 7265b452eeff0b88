"""A million runs that wait on a delay: what finding the due ones takes, and what waiting costs."""

import asyncio
import time
from contextlib import AsyncExitStack

from bench import outbox, runs
from bench.measure import BenchError, Measure, beside, median
from bench.process import dispatching
from bench.server import Connection, Server
from dispatcher.base.clock import Clock
from dispatcher.base.metrics import Metrics
from dispatcher.config.settings import Database as Settings
from dispatcher.config.settings import Walk
from dispatcher.db.database import Database
from dispatcher.engine.store import instances
from dispatcher.features.runs.walk.worker import Walker
from dispatcher.plans.plan import Delay, Plan

# Runs that wait, here and beside; `deliveries` of the command line is the first.
DELIVERIES = 1_000_000
FEW = 10_000
# Batches of due ones on each side, in turn.
ROUNDS = 100

BATCH = 100
WARM_UP = 5
FUTURE_SECONDS = 86_400
LEASE_SECONDS = 600.0
IDLE_SECONDS = 10.0
# The process has found that there is nothing to do, and the server has nothing left to tidy up.
QUIET_SECONDS = 3.0

METHOD = (
    "p50 of {rounds} walks of {batch} due runs (lock, decide, write, commit), in turn with {runs} runs that wait for a "
    "later day and with {few}. Less is better; limit 1.5."
)
METHOD_IDLE = "CPU over {seconds:g} s, process and server together, with {runs} runs that wait. Limit 1 %."


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Both sides at once, so that the machine's noise hits both."""
    few = min(FEW, deliveries)
    async with AsyncExitStack() as stack:
        many_side = await _walks(stack, server, deliveries, rounds)
        few_side = await _walks(stack, server, few, rounds)
        for _ in range(WARM_UP):
            await many_side.seconds()
            await few_side.seconds()
        pairs = [(await many_side.seconds(), await few_side.seconds()) for _ in range(rounds)]
    value, reference = (median(side) * 1e3 for side in zip(*pairs, strict=True))
    method = METHOD.format(rounds=rounds, batch=BATCH, runs=deliveries, few=few)
    seconds = max(1.0, IDLE_SECONDS * min(1.0, deliveries / DELIVERIES))
    idle = await _idle(server, deliveries, seconds)
    return [
        beside("timers", "ms/walk", value, f"{few} waiting", reference, method),
        beside("timers.idle", "% CPU", idle, "limit", 1.0, METHOD_IDLE.format(seconds=seconds, runs=deliveries)),
    ]


class _Walks:
    """Walks on one database."""

    def __init__(self, database: Database, connection: Connection) -> None:
        settings = Walk(batch_max=BATCH)
        self._connection = connection
        self._walker = Walker(database, settings, lambda: 1, Clock(), Metrics(), lambda: None, asyncio.Event())

    async def seconds(self) -> float:
        """Time of one full walk."""
        begun = time.perf_counter()
        walked = await self._walker.run_once(1)
        elapsed = time.perf_counter() - begun
        if walked.runs != BATCH:
            raise BenchError(f"a walk of {BATCH} runs took {walked.runs}")
        return elapsed


async def _walks(stack: AsyncExitStack, server: Server, waiting: int, rounds: int) -> _Walks:
    url, connection = await stack.enter_async_context(outbox.outbox(server))
    await _load(connection, waiting, FUTURE_SECONDS)
    await _load(connection, (rounds + WARM_UP) * BATCH, -1)
    await runs.settle(connection)
    database = Database(Settings(), url)
    await database.open()
    stack.push_async_callback(database.close)
    await instances.join(database, instances.Beat(1, 0, LEASE_SECONDS, "bench", ""), "bench")
    return _Walks(database, connection)


async def _load(connection: Connection, count: int, due_seconds: int) -> None:
    """Runs that wait for a delay to end, a millisecond apart."""
    await runs.put(connection, Plan(name=runs.WORKFLOW, entry="pause", nodes={"pause": Delay(step=1, seconds=1.0)}))
    await connection.execute(
        """
        INSERT INTO dispatcher.runs (workflow_id, version_id, available_at, started_at, status, tenant_id, workspace_id,
                                     workflow, triggered_by, input, state)
        SELECT w.id, w.current, t.due, now(), 'waiting', 'default', 'default', w.name, 'bench', '{"name": "Ann"}',
               jsonb_build_object('entries', 1, 'cursor', jsonb_build_object('pause', jsonb_build_object(
                   'standing', 'delaying', 'since', extract(epoch FROM now()), 'until', extract(epoch FROM t.due))))
          FROM dispatcher.workflows w, generate_series(1, $2::int) AS i,
               LATERAL (SELECT now() + make_interval(secs => $1::int + sign($1::int) * i * 0.001) AS due) AS t
         WHERE w.name = $3
        """,
        due_seconds,
        count,
        runs.WORKFLOW,
    )


async def _idle(server: Server, waiting: int, seconds: float) -> float:
    """CPU in percent while nothing is due."""
    async with outbox.outbox(server) as (url, connection):
        await _load(connection, waiting, FUTURE_SECONDS)
        await runs.settle(connection)
        async with dispatching(url, **runs.SETTINGS) as process:
            await process.started(connection)
            await asyncio.sleep(QUIET_SECONDS)
            before = process.cpu_seconds() + server.cpu_seconds()
            await asyncio.sleep(seconds)
            return (process.cpu_seconds() + server.cpu_seconds() - before) / seconds * 100
