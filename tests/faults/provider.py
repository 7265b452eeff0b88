"""The ledger as tests drive it: a process with its books in a file, and the lines that one speaks with it."""

import asyncio
import json
import os
import resource
import signal
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from dispatcher.selftest.ledger import Entry, read_ledger

ROOT = Path(__file__).parents[2]
LINE_BYTES_MAX = 1024 * 1024


class Provider:
    """`python -m dispatcher.selftest.ledger` with these arguments; it does not outlive the `async with`."""

    def __init__(self, path: Path, *arguments: str) -> None:
        self.path = path
        self.port = 0
        self._arguments = arguments
        self._process: Process

    async def __aenter__(self) -> Self:
        command = ("-m", "dispatcher.selftest.ledger", "--file", str(self.path), *self._arguments)
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, *command, stdout=PIPE, env=environment, cwd=ROOT
        )
        assert self._process.stdout is not None
        self.port = json.loads(await self._process.stdout.readline())["port"]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.end(signal.SIGKILL)

    async def end(self, number: int) -> int:
        """Send a signal unless it has ended; answers the exit code."""
        if self._process.returncode is None:
            self._process.send_signal(number)
        return await self._process.wait()

    def stop(self) -> None:
        """SIGSTOP: it answers nothing, and its connections stay."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    def let_write(self, file_bytes: int) -> None:
        """From now on its file may not grow beyond this, as on a disk that is full."""
        resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (file_bytes, file_bytes))

    def entries(self) -> dict[str, Entry]:
        """Return what it has accepted so far, by key."""
        return read_ledger(self.path)

    def raw(self) -> bytes:
        """The file's content."""
        return self.path.read_bytes()

    async def connect(self) -> "LedgerClient":
        """A connection to it."""
        return LedgerClient(*await asyncio.open_connection("127.0.0.1", self.port, limit=LINE_BYTES_MAX))


class LedgerClient:
    """Lines of JSON, as many behind each other as one likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def ask(self, *requests: dict[str, Any]) -> list[dict[str, Any]]:
        """Send requests at once; their answers, as far as they come before the connection is closed."""
        self.writer.write(b"".join(json.dumps(request).encode() + b"\n" for request in requests))
        return [answer for _ in requests if (answer := await self.answer())]

    async def answer(self) -> dict[str, Any] | None:
        """The next answer; None at the end."""
        try:
            line = await self._reader.readline()
        except ConnectionError:
            return None
        return dict(json.loads(line)) if line else None

    async def close(self) -> None:
        """Hang up."""
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


def message(number: int, attempt: int = 1, key: str = "") -> dict[str, Any]:
    """A request."""
    return {
        "key": key or f"key-{number}",
        "delivery_id": number,
        "attempt": attempt,
        "recipient": "+4917012345",
        "body": {"body": "hello"},
    }
