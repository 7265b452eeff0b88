"""The real program as tests drive it: a process with a configuration, a log, a listener and signals."""

import asyncio
import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from tests.support.forks import ROOT, Child, forks, plain_environment

T = TypeVar("T")
Process = subprocess.Popen[bytes] | Child

START_SECONDS_MAX = 30.0
RUN_SECONDS_MAX = 120.0
STEP_SECONDS = 0.02


class Program:
    """`dispatcher serve` on a database. Every instance has a log of its own; replicas are further Programs."""

    def __init__(self, url: str, **environment: str) -> None:
        self.url = url
        self.environment = environment
        self.process: Process | None = None
        self.log_path = Path(tempfile.mkstemp(prefix="dispatcher-", suffix=".log")[1])
        self.address = ""

    def command(self, *arguments: str) -> list[str]:
        """The program's command line."""
        return [sys.executable, "-m", "dispatcher", *arguments]

    def environment_with(self, extra: dict[str, str]) -> dict[str, str]:
        """The environment of its processes: what they all have, its own, and this."""
        own = {"DISPATCHER_DATABASE_URL": self.url, "DISPATCHER_HTTP__PORT": "0"}
        return plain_environment() | own | self.environment | extra

    async def start(self, *arguments: str, **environment: str) -> "Program":
        """Start it, and return when it takes work."""
        await self.launch(*arguments, **environment)
        await self.until(lambda: self.get("/readyz")[0] == 200, "it is ready")
        return self

    async def launch(self, *arguments: str, **environment: str) -> "Program":
        """Start it, and return when it listens."""
        before = len(self.events("http.listening"))
        self.begin(*arguments, **environment)
        await self.until(lambda: self.events("http.listening")[before:], "it listens")
        self.address = str(self.events("http.listening")[-1]["address"])
        return self

    def begin(self, *arguments: str, **environment: str) -> None:
        """Start it, and wait for nothing."""
        with self.log_path.open("ab") as log:
            self.process = self._started(log.fileno(), "serve", *arguments, **environment)

    def _started(self, log: int, *arguments: str, **environment: str) -> Process:
        told = self.environment_with(environment)
        if not forks().suits(told):
            return subprocess.Popen(self.command(*arguments), env=told, stderr=log, cwd=ROOT)
        with Path(os.devnull).open("rb") as nothing:
            return forks().start(arguments, told, (nothing.fileno(), 1, log))

    def run(self, *arguments: str, stdin: bytes = b"", **environment: str) -> "subprocess.CompletedProcess[bytes]":
        """Run another command of the program to its end."""
        told = self.environment_with(environment)
        if forks().suits(told):
            return forks().run(arguments, told, stdin, RUN_SECONDS_MAX)
        return subprocess.run(
            self.command(*arguments),
            env=told,
            input=stdin,
            capture_output=True,
            cwd=ROOT,
            timeout=RUN_SECONDS_MAX,
            check=False,
        )

    def on_terminal(self, *arguments: str) -> str:
        """Run another command to its end, and answer what it writes to a terminal that its standard error is."""
        ours, its = pty.openpty()
        environment = self.environment_with({"TERM": "xterm-256color", "COLUMNS": "100"})
        process = subprocess.Popen(self.command(*arguments), env=environment, stdout=its, stderr=its, cwd=ROOT)
        os.close(its)
        said = b""
        # Linux says that the other side is closed by an error.
        with contextlib.suppress(OSError):
            while some := os.read(ours, 65_536):
                said += some
        os.close(ours)
        assert process.wait() == 0, said
        return said.decode()

    def lines(self) -> list[dict[str, Any]]:
        """The log so far."""
        found: list[dict[str, Any]] = []
        for line in self.log_path.read_text(errors="replace").splitlines():
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError:
                found.append({"event": line})
        return found

    def events(self, name: str) -> list[dict[str, Any]]:
        """The log lines of one event."""
        return [line for line in self.lines() if line.get("event") == name]

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of a page of the listener; 0 where it does not answer."""
        try:
            with urllib.request.urlopen(self.address + path, timeout=5) as answer:  # noqa: S310 - our own listener
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()
        except OSError:
            return 0, ""

    def metric(self, name: str, **labels: str) -> float:
        """The sum of the samples of a metric that carry these labels."""
        total = 0.0
        for line in self.get("/metrics")[1].splitlines():
            head, _, value = line.rpartition(" ")
            if head.split("{", 1)[0] == name and all(f'{key}="{text}"' in head for key, text in labels.items()):
                total += float(value)
        return total

    async def until(self, holds: Callable[[], T | Awaitable[T]], what: str, seconds: float = START_SECONDS_MAX) -> T:
        """Wait for something to hold; fail with the log when it does not, or when the program has ended."""
        steps = int(seconds / STEP_SECONDS)
        for _ in range(steps):
            found = holds()
            if isinstance(found, Awaitable):
                found = await found
            if found:
                return found
            if self.process is not None and self.process.poll() is not None:
                raise AssertionError(f"it ended with {self.process.returncode} before {what}:\n{self._tail()}")
            await asyncio.sleep(STEP_SECONDS)
        raise AssertionError(f"not within {seconds} s: {what}\n{self._tail()}")

    def _tail(self) -> str:
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-30:])

    def signal(self, number: int) -> None:
        """Send it a signal."""
        assert self.process is not None
        self.process.send_signal(number)

    async def stop(self, seconds: float = START_SECONDS_MAX) -> int:
        """SIGTERM; answers the exit code."""
        self.signal(signal.SIGTERM)
        return await self.ended(seconds)

    async def ended(self, seconds: float = START_SECONDS_MAX) -> int:
        """Wait for its end; answers the exit code."""
        assert self.process is not None
        return await asyncio.to_thread(self.process.wait, seconds)

    async def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        self.signal(signal.SIGKILL)
        await self.ended()

    def end(self) -> None:
        """Whatever state it is in: gone, and its log with it."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.log_path.unlink(missing_ok=True)
