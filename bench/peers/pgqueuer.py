"""pgqueuer as a peer: filled by its own enqueue, drained by its own worker in a process of its own."""

import asyncio
import os
import sys
from importlib.util import find_spec

import psutil

from bench.measure import BenchError
from bench.process import ROOT
from bench.server import Connection, Server, connected

# What it is asked to do: nothing.
ENTRYPOINT = "sms"
# Its best: in one run 2,000 jobs a second with its default of 10, 19,600 with this, 20,000 with 2,000 and 14,700 with
# 5,000.
BATCH = 1_000
ENQUEUE_BATCH = 10_000
DRAIN_SECONDS_MAX = 600.0


def available() -> bool:
    """It is an extra: `pip install dispatcher[bench]`."""
    return find_spec("pgqueuer") is not None


async def fill(url: str, jobs: int) -> None:
    """Install its schema with all tables logged and its own autovacuum advice, and enqueue jobs without a payload."""
    if not available():
        raise BenchError("pgqueuer is not installed: pip install 'dispatcher[bench]'")
    from pgqueuer.db import AsyncpgDriver  # noqa: PLC0415 - an extra
    from pgqueuer.queries import Queries  # noqa: PLC0415 - an extra

    async with connected(url) as connection:
        queries = Queries(AsyncpgDriver(connection))
        await queries.install()
        await connection.execute(queries.qbe.build_optimize_autovacuum_query())
        for start in range(0, jobs, ENQUEUE_BATCH):
            count = min(ENQUEUE_BATCH, jobs - start)
            await queries.enqueue([ENTRYPOINT] * count, [None] * count, [0] * count)
        await connection.execute("VACUUM (ANALYZE)")
        await connection.execute("CHECKPOINT")


async def drain(server: Server, url: str, jobs: int) -> tuple[float, float, float]:
    """Drain them; answers the seconds from first pick to last log line, and CPU seconds of worker and server."""
    worker = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.peers.pgqueuer_worker",
        url,
        str(BATCH),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    try:
        async with asyncio.timeout(DRAIN_SECONDS_MAX):
            return await _watch(worker, server, url, jobs)
    finally:
        if worker.returncode is None:
            worker.kill()
        await worker.wait()


async def _watch(worker: asyncio.subprocess.Process, server: Server, url: str, jobs: int) -> tuple[float, float, float]:
    seen = psutil.Process(worker.pid)

    def cpu() -> tuple[float, float]:
        times = seen.cpu_times()
        return times.user + times.system, server.cpu_seconds()

    await _expect(worker, b"ready\n")
    before = cpu()
    await _answer(worker)
    await _expect(worker, b"done\n")
    after = cpu()
    await _answer(worker)
    async with connected(url) as connection:
        return await _seconds(connection, jobs), after[0] - before[0], after[1] - before[1]


async def _expect(worker: asyncio.subprocess.Process, line: bytes) -> None:
    assert worker.stdout is not None  # noqa: S101 - it was started with a pipe
    found = await worker.stdout.readline()
    if found != line:
        raise BenchError(f"pgqueuer's worker said {found!r} and not {line!r}")


async def _answer(worker: asyncio.subprocess.Process) -> None:
    assert worker.stdin is not None  # noqa: S101 - it was started with a pipe
    worker.stdin.write(b"go on\n")
    await worker.stdin.drain()


async def _seconds(connection: Connection, jobs: int) -> float:
    """From its own log, which has the time at which each statement began; every job must have succeeded."""
    [(first, last, succeeded)] = await connection.fetch(
        """
        SELECT min(created) FILTER (WHERE status = 'picked'), max(created) FILTER (WHERE status = 'successful'),
               count(*) FILTER (WHERE status = 'successful')
          FROM pgqueuer_log
        """
    )
    if succeeded != jobs:
        raise BenchError(f"pgqueuer did {succeeded} of {jobs} jobs")
    return float((last - first).total_seconds())
