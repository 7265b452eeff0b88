"""The HTTP API beside a bare Litestar handler that does one INSERT, and dispatching while the API is loaded.

What is triggered begins with a delay, and what is written in batches is due tomorrow: the endpoint is measured, and not
what is behind it.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import msgspec

from bench import outbox, runs, sink
from bench.load import Answered, Load, apply, loading
from bench.measure import BenchError, Measure, beside, median
from bench.process import ROOT, START_SECONDS_MAX, Dispatcher, dispatching
from bench.server import Connection, Server
from dispatcher.plans.plan import Plan

# Triggers a round; the other parts are sized by it.
DELIVERIES = 20_000
ROUNDS = 3

CONNECTIONS = 32
BATCH = 1_000
BATCHES_AT_ONCE = 4
# Deliveries that are dispatched beside the load, and that are written in batches, for each trigger.
DISPATCHED, BATCHED = 5, 5
LATER_SECONDS = 3_600.0
WARM_UP = 200
UNLIMITED = "1000000"
SETTINGS = {
    **runs.SETTINGS,
    "API__KEY_RATE_PER_SECOND": UNLIMITED,
    "API__KEY_RATE_BURST": UNLIMITED,
    "API__SHED_AFTER_SECONDS": "0",
}

TRIGGERS = (
    "{requests} triggers with keys of their own, each a request, over {connections} kept connections; each answered "
    "when it is on disk; {rounds} rounds in turn, medians. Reference: a bare Litestar handler that reads the same body "
    "and does one INSERT, in a process of its own. "
)
BATCHES = (
    "{deliveries} deliveries in requests of {batch} over {connections} connections; {rounds} rounds in turn, medians. "
    "Reference: {reference}. More is better; {limit}."
)
DISPATCH = (
    "{deliveries} deliveries inserted at once into a running process, from the commit to the last flush, while its API "
    "takes as many triggers as it can over {connections} connections; {rounds} rounds in turn, medians. Reference: "
    "the same without triggers. More is better; limit 0.6."
)


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Measure each part alternately with its reference."""
    ours, bare, batches, rows, loaded, alone = [], [], [], [], [], []
    for _ in range(rounds):
        async with listening(server) as (load, _, _):
            ours.append(await warm(msgspec.structs.replace(load, requests=deliveries)))
            batches.append(await warm(_batches(load, deliveries)))
        async with _bare(server) as load:
            bare.append(await warm(msgspec.structs.replace(load, requests=deliveries)))
            rows.append(await warm(msgspec.structs.replace(_batches(load, deliveries), path="/deliveries")))
        loaded.append(await _dispatched(server, deliveries * DISPATCHED, loaded=True))
        alone.append(await _dispatched(server, deliveries * DISPATCHED, loaded=False))
    return [
        *_triggers(ours, bare, deliveries, rounds),
        *_batched(batches, bare, rows, deliveries, rounds),
        beside(
            "api.dispatch",
            "deliveries/s",
            median(loaded),
            "alone",
            median(alone),
            DISPATCH.format(deliveries=deliveries * DISPATCHED, connections=CONNECTIONS, rounds=rounds),
        ),
    ]


def _rate(answered: list[Answered], count: int) -> float:
    return median([count / one.seconds for one in answered])


def _triggers(ours: list[Answered], bare: list[Answered], requests: int, rounds: int) -> list[Measure]:
    method = TRIGGERS.format(requests=requests, connections=CONNECTIONS, rounds=rounds)
    rates = _rate(ours, requests), _rate(bare, requests)
    times = (median([one.p99_seconds * 1e3 for one in side]) for side in (ours, bare))
    return [
        beside("api", "triggers/s", rates[0], "bare handler", rates[1], f"{method}More is better; limit 0.6."),
        beside("api.p99", "ms", next(times), "bare handler", next(times), f"{method}Less is better."),
    ]


def _batched(
    batches: list[Answered], bare: list[Answered], rows: list[Answered], requests: int, rounds: int
) -> list[Measure]:
    count = _batches_of(requests) * BATCH
    rate = _rate(batches, count)
    told = {"deliveries": count, "batch": BATCH, "connections": BATCHES_AT_ONCE, "rounds": rounds}
    one = BATCHES.format(reference="the bare handler with one INSERT a request", limit="limit 0.6", **told)
    many = BATCHES.format(
        reference="a bare handler that writes the rows of as large a request by one INSERT into one table",
        limit="no limit",
        **told,
    )
    return [
        beside("api.batch", "deliveries/s", rate, "bare handler", _rate(bare, requests), one),
        beside("api.batch.rows", "deliveries/s", rate, "bare rows", _rate(rows, count), many),
    ]


def _batches_of(requests: int) -> int:
    return max(requests * BATCHED // BATCH, BATCHES_AT_ONCE)


def _batches(load: Load, requests: int) -> Load:
    return msgspec.structs.replace(
        load,
        path="/deliveries/batch",
        kind="deliveries",
        name="batch",
        requests=_batches_of(requests),
        connections=BATCHES_AT_ONCE,
        batch=BATCH,
        due=(datetime.now(UTC) + timedelta(days=1)).isoformat(),
    )


async def warm(load: Load) -> Answered:
    """Connections opened and statements prepared, then measured."""
    few = max(load.connections, WARM_UP // load.batch)
    await apply(msgspec.structs.replace(load, name=f"warm-{load.name}", requests=few))
    return await apply(load)


def _plan() -> Plan:
    """A delay, and behind it an SMS that is not waited for here."""
    plan = runs.plan(LATER_SECONDS)
    nodes = {name: plan.nodes[name] for name in ("pause", "text")}
    return msgspec.structs.replace(plan, entry="pause", nodes=nodes, edges={"pause": plan.edges["pause"]})


@asynccontextmanager
async def listening(server: Server, **more: str) -> AsyncIterator[tuple[Load, Dispatcher, Connection]]:
    """A dispatcher that listens, with a key and a workflow."""
    async with outbox.outbox(server) as (url, connection):
        await runs.put(connection, _plan())
        port = sink.free_port()
        async with dispatching(url, HTTP__PORT=str(port), **SETTINGS, **more) as process:
            await process.started(connection)
            address = f"http://127.0.0.1:{port}"
            path = f"/workflows/{runs.WORKFLOW}/triggers"
            yield Load(address, path, make_key(url), "triggers", WARM_UP, CONNECTIONS), process, connection


def make_key(url: str) -> str:
    """Make a key of an administrator."""
    words = ("keys", "create", "bench", "--role", "systemAdmin", "--actor", "bench", "--reason", "to be measured")
    made = subprocess.run(
        [sys.executable, "-m", "dispatcher", *words],
        env=os.environ | {"DISPATCHER_DATABASE_URL": url},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        raise BenchError(f"no key was made: {made.stderr}")
    return made.stdout.strip()


@asynccontextmanager
async def _bare(server: Server) -> AsyncIterator[Load]:
    """The reference, listening."""
    async with server.database() as url:
        port = sink.free_port()
        words = (sys.executable, "-m", "bench.peers.litestar_bare", url, str(port))
        process = await asyncio.create_subprocess_exec(*words, cwd=ROOT)
        try:
            await _listening(port)
            yield Load(f"http://127.0.0.1:{port}", "/triggers", "none", "triggers", WARM_UP, CONNECTIONS)
        finally:
            process.terminate()
            await process.wait()


async def _listening(port: int) -> None:
    for _ in range(int(START_SECONDS_MAX / sink.STEP_SECONDS)):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(sink.STEP_SECONDS)
        else:
            writer.close()
            return
    raise BenchError("the bare handler does not listen")


async def _dispatched(server: Server, deliveries: int, *, loaded: bool) -> float:
    async with listening(server) as (load, process, connection):
        await outbox.fill(connection, "sms", WARM_UP)
        await process.drained(connection, "sms")
        async with loading(load) if loaded else _nobody():
            await outbox.fill(connection, "sms", deliveries, due_seconds=-1)
            began = time.time()
            await process.drained(connection, "sms")
        await outbox.require_sent(connection, "sms", deliveries + WARM_UP)
        ended = await connection.fetchval(
            "SELECT extract(epoch FROM max(finished_at))::float8 FROM dispatcher.delivery_state"
        )
    return float(deliveries / (ended - began))


@asynccontextmanager
async def _nobody() -> AsyncIterator[None]:
    yield
