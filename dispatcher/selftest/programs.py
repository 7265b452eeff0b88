"""The processes of a trial: providers and replicas, each with a log."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import msgspec

from dispatcher.base.errors import DispatcherError
from dispatcher.selftest.ledger_file import Entry, read_ledger

# The folder of our own package, so that a child imports the same one.
ROOT = Path(__file__).parents[2]
START_SECONDS_MAX = 30.0


def _environment(**ours: str) -> dict[str, str]:
    """Return our environment without what would configure a dispatcher or arm a fault point."""
    others = {name: text for name, text in os.environ.items() if not name.startswith("DISPATCHER_") and name != "FAULT"}
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return others | {"PYTHONPATH": path} | ours


class Provider:
    def __init__(self, path: Path, arguments: Sequence[str]) -> None:
        self.path = path
        self.port = 0
        self._arguments = arguments
        self._process: Process

    async def __aenter__(self) -> Self:
        command = ("-m", "dispatcher.selftest.ledger", "--file", str(self.path), *self._arguments)
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, *command, stdin=DEVNULL, stdout=PIPE, env=_environment(), start_new_session=True
        )
        try:
            self.port = await asyncio.wait_for(_port(self._process), START_SECONDS_MAX)
        except BaseException:
            await end(self._process)
            raise
        if not self.port:
            raise DispatcherError(f"a provider does not start: it ended with {await self._process.wait()}")
        return self

    async def __aexit__(self, *_: object) -> None:
        await end(self._process)

    def entries(self) -> dict[str, Entry]:
        """Return what it has accepted, by key."""
        return read_ledger(self.path)


async def _port(process: Process) -> int:
    """Return the port that a provider prints; 0 where it ends without one."""
    line = await process.stdout.readline() if process.stdout is not None else b""
    return msgspec.json.decode(line, type=dict[str, int])["port"] if line else 0


class Replica:
    """One `dispatcher serve`, under a name of its own."""

    def __init__(self, name: str, log: Path, fault: str) -> None:
        self.name = name
        self.fault = fault
        self.stopped = False
        self.ending = False
        self.process: Process
        self._log = log

    async def start(self, config: Path, url: str) -> None:
        fault = {"FAULT": self.fault} if self.fault else {}
        environment = _environment(DISPATCHER_DATABASE_URL=url, DISPATCHER_INSTANCE__NAME=self.name, **fault)
        with self._log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "dispatcher", "serve", "--config", str(config)),
                stdin=DEVNULL,
                stderr=log,
                env=environment,
                start_new_session=True,  # Ctrl-C is for us: we end what we started
            )

    @property
    def alive(self) -> bool:
        """Whether it runs, and is not being ended."""
        return self.process.returncode is None and not self.stopped and not self.ending

    def signal(self, number: signal.Signals) -> None:
        if self.process.returncode is None:
            self.process.send_signal(number)


async def end(process: Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()
