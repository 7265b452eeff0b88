"""The Postgres of a benchmark: embedded, with default durability, in a folder of its own that goes with it."""

import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

import asyncpg
import psutil

from bench.measure import BenchError
from dispatcher.db import embedded

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

# Loading millions of rows in one statement takes its time.
STATEMENT_SECONDS_MAX = 900.0
READINGS_MAX = 100


class Server:
    """A running server; every round gets a database of its own from it, so that none inherits another's dead rows."""

    def __init__(self, within: Path | None = None) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="dispatcher-bench-", dir=within))
        self._server = embedded.start(str(self._folder))
        self._url: str = self._server.get_uri()
        self._names = (f"bench_{number}" for number in count(1))
        self._templates: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.cleanup()
        shutil.rmtree(self._folder, ignore_errors=True)

    @asynccontextmanager
    async def database(self, template: str = "template0") -> AsyncIterator[str]:
        """The URL of a database, empty or a copy of a template, which is dropped afterwards."""
        name = next(self._names)
        async with connected(self._url) as admin:
            # A copy through the log would be a gigabyte of it; an empty one is small.
            how = "WAL_LOG" if template == "template0" else "FILE_COPY"
            await admin.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY {how}")
            try:
                yield self._of(name)
            finally:
                await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")

    async def template(self, name: str, fill: Callable[[str], Awaitable[None]]) -> str:
        """The name of a database that others are copies of; it is filled when it is asked for first."""
        if name not in self._templates:
            async with connected(self._url) as admin:
                await admin.execute(f"CREATE DATABASE {name} TEMPLATE template0")
            await fill(self._of(name))
            self._templates.add(name)
        return name

    def _of(self, name: str) -> str:
        return self._url.replace("/postgres?", f"/{name}?", 1)

    def cpu_seconds(self) -> float:
        """CPU that the server has used so far: its living processes, and those that have ended."""
        postmaster = psutil.Process(int((self._folder / "postgres" / "postmaster.pid").read_text().split()[0]))
        for _ in range(READINGS_MAX):
            before = postmaster.cpu_times()
            living = [_seconds(backend) for backend in postmaster.children()]
            after = postmaster.cpu_times()
            # One that ends while we read is in neither sum, or in both: read again.
            ended = before.children_user + before.children_system
            if None not in living and ended == after.children_user + after.children_system:
                return float(after.user + after.system + ended) + sum(filter(None, living))
        raise BenchError("backends come and go too fast for their CPU to be read")


def _seconds(process: psutil.Process) -> float | None:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return None
    return float(times.user + times.system)


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Connection]:
    """A plain connection for a while."""
    connection = await asyncpg.connect(url, command_timeout=STATEMENT_SECONDS_MAX)
    try:
        yield connection
    finally:
        await connection.close()
