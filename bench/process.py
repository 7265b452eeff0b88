"""The dispatcher as a benchmark runs it: its own process, the real command line, configured by the environment."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import psutil

from bench.measure import BenchError
from bench.outbox import is_drained
from bench.server import Connection

ROOT = Path(__file__).parent.parent
START_SECONDS_MAX = 60.0
DRAIN_SECONDS_MAX = 600.0
STOP_SECONDS_MAX = 40.0
TAIL_LINES = 20


class Dispatcher:
    """A running `dispatcher serve`, seen from outside."""

    def __init__(self, url: str, settings: dict[str, str]) -> None:
        self._log = Path(tempfile.mkstemp(prefix="dispatcher-bench-", suffix=".log")[1])
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("DISPATCHER_")}
        ours = {f"DISPATCHER_{name}": value for name, value in settings.items()}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "dispatcher", "serve"],
                env=inherited | {"DISPATCHER_DATABASE_URL": url, "DISPATCHER_HTTP__PORT": "0"} | ours,
                stderr=log,
                cwd=ROOT,
            )
        self._seen = psutil.Process(self._process.pid)

    def cpu_seconds(self) -> float:
        """CPU that it has used so far."""
        times = self._seen.cpu_times()
        return float(times.user + times.system)

    def rss_megabytes(self) -> float:
        """Its resident memory."""
        return float(self._seen.memory_info().rss) / 1e6

    async def started(self, connection: Connection) -> None:
        """Return when its pipeline has joined, directly before it claims for the first time."""

        async def joined() -> bool:
            return bool(await connection.fetchval("SELECT EXISTS (SELECT FROM dispatcher.instances)"))

        await self.until(joined, "it starts", START_SECONDS_MAX, step_seconds=0.005)

    async def address(self) -> str:
        """Where it listens."""
        found: list[str] = []

        async def listens() -> bool:
            lines = [line for line in self._log.read_text(errors="replace").splitlines() if '"http.listening"' in line]
            found.extend(str(json.loads(line)["address"]) for line in lines)
            return bool(found)

        await self.until(listens, "it listens", START_SECONDS_MAX)
        return found[-1]

    async def drained(self, connection: Connection, channel: str, seconds: float = DRAIN_SECONDS_MAX) -> None:
        """Return when nothing of a channel waits and nothing is under way."""

        async def empty() -> bool:
            return await is_drained(connection, channel)

        await self.until(empty, f"{channel} is drained", seconds)

    async def until(
        self, holds: Callable[[], Awaitable[bool]], what: str, seconds: float, step_seconds: float = 0.05
    ) -> None:
        """Look until something holds; fail with its log when it does not, or when the process has ended."""
        for _ in range(int(seconds / step_seconds) + 1):
            if await holds():
                return
            if self._process.poll() is not None:
                raise BenchError(f"the dispatcher ended with {self._process.returncode} before {what}\n{self._tail()}")
            await asyncio.sleep(step_seconds)
        raise BenchError(f"not within {seconds:g} s: {what}\n{self._tail()}")

    def _tail(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-TAIL_LINES:])

    async def stop(self) -> None:
        """Drain it, or end it where it does not."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            await asyncio.to_thread(self._process.wait, STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.unlink(missing_ok=True)


@asynccontextmanager
async def dispatching(url: str, **settings: str) -> AsyncIterator[Dispatcher]:
    """A dispatcher on a migrated database; settings are named as in its environment, without the prefix."""
    running = Dispatcher(url, settings)
    try:
        yield running
    finally:
        await running.stop()
