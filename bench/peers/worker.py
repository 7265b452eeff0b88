"""A peer's worker: a process of its own that says when it is ready and when it is done, and then waits for word."""

import asyncio
import os
import sys

import psutil

from bench.measure import BenchError
from bench.process import ROOT
from bench.server import Server

READY, DONE = "ready", "done"
WORK_SECONDS_MAX = 600.0


async def cpu_seconds(server: Server, module: str, *arguments: str) -> tuple[float, float]:
    """Run a worker from start to end; answers the CPU seconds of it and of the server between its two words."""
    worker = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    try:
        async with asyncio.timeout(WORK_SECONDS_MAX):
            return await _watch(worker, server, module)
    finally:
        if worker.returncode is None:
            worker.kill()
        await worker.wait()


async def _watch(worker: asyncio.subprocess.Process, server: Server, module: str) -> tuple[float, float]:
    seen = psutil.Process(worker.pid)

    def cpu() -> tuple[float, float]:
        times = seen.cpu_times()
        return times.user + times.system, server.cpu_seconds()

    await _expect(worker, READY, module)
    before = cpu()
    await _answer(worker)
    await _expect(worker, DONE, module)
    after = cpu()
    await _answer(worker)
    return after[0] - before[0], after[1] - before[1]


async def _expect(worker: asyncio.subprocess.Process, word: str, module: str) -> None:
    assert worker.stdout is not None  # noqa: S101 - it was started with a pipe
    found = (await worker.stdout.readline()).decode(errors="replace").strip()
    if found != word:
        raise BenchError(f"{module} said {found!r} and not {word!r}")


async def _answer(worker: asyncio.subprocess.Process) -> None:
    assert worker.stdin is not None  # noqa: S101 - it was started with a pipe
    worker.stdin.write(b"go on\n")
    await worker.stdin.drain()


def say(word: str) -> None:
    """The worker's side: say a word, and wait while our CPU is read."""
    print(word, flush=True)
    sys.stdin.readline()
