"""The most that two replicas send in any second under one limit, also while one joins, is killed, or is stopped.

`build` is the dispatcher as it is, which notes each permit that it takes in a file.
"""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from bench import outbox
from bench.measure import BenchError, Measure, beside
from bench.process import ROOT
from bench.server import Connection, Server
from dispatcher.selftest.programs import Provider

DELIVERIES = 20_000
ROUNDS = 1

LIMIT = 500
PHASES = ("both", "stopped", "killed", "joins")
LEASE_SECONDS = 2.0
SETTINGS = {
    "CHANNELS__SMS__PROVIDER": "ledger",
    "CHANNELS__SMS__RATE_PER_SECOND": str(LIMIT),
    "INSTANCE__LEASE_SECONDS": str(LEASE_SECONDS),
    "INSTANCE__HEARTBEAT_SECONDS": "0.4",
    "INSTANCE__LICENCE_SECONDS": "1",
    "HTTP__PORT": "0",
}
# Its arguments: the file of the permits, and the command line.
START = "from bench.cases.shared_limit import build; build()"
START_SECONDS_MAX = 30.0
STEP_SECONDS = 0.02
LOG_SHOWN_MAX = 4_000

METHOD = (
    "The most in any window of one second that begins while {phase}; two replicas share {limit}/s on a channel against "
    "the ledger, which records a monotonic time for each message. Lease {lease:g} s, {seconds:g} s a phase. Less is "
    "better; limit 1.10."
)
METHOD_PERMITS = (
    "As above over all phases, counted where the tokens are taken, directly before the mark. Less is better; "
    "limit 1.05."
)
WORDS = {
    "both": "both run",
    "stopped": "one is stopped by SIGSTOP, for longer than its lease, and goes on",
    "killed": "one is killed with kill -9",
    "joins": "one joins again",
}


class Replica:
    """A dispatcher that notes its permits."""

    def __init__(self, url: str, port: int, permits: Path) -> None:
        inherited = {name: text for name, text in os.environ.items() if not name.startswith("DISPATCHER_")}
        settings = SETTINGS | {"DATABASE_URL": url, "CHANNELS__SMS__OPTIONS__PORT": str(port)}
        with permits.with_name("log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", START, str(permits), "serve"],
                env=inherited | {f"DISPATCHER_{name}": text for name, text in settings.items()},
                stderr=log,
                cwd=ROOT,
            )

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def end(self) -> None:
        """Kill it, in any state."""
        self._process.kill()
        self._process.wait()


class Replicas:
    """The replicas, none of which outlives the `with`."""

    def __init__(self, url: str, port: int, permits: Path) -> None:
        self._terms = url, port, permits
        self.members: list[Replica] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.end()

    def start(self) -> None:
        """Start another replica."""
        self.members.append(Replica(*self._terms))


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """The worst of all rounds."""
    seconds = max(1.0, deliveries / LIMIT / len(PHASES))
    worst: dict[str, int] = {}
    for _ in range(rounds):
        for name, count in (await _round(server, deliveries, seconds)).items():
            worst[name] = max(count, worst.get(name, 0))
    measures = []
    for phase in PHASES:
        method = METHOD.format(phase=WORDS[phase], limit=LIMIT, lease=LEASE_SECONDS, seconds=seconds)
        measures.append(beside(f"shared_limit.{phase}", "calls/s", worst[phase], "limit", LIMIT, method))
    measures.append(beside("shared_limit.permits", "permits/s", worst["permits"], "limit", LIMIT, METHOD_PERMITS))
    return measures


async def _round(server: Server, deliveries: int, seconds: float) -> dict[str, int]:
    with tempfile.TemporaryDirectory(prefix="dispatcher-bench-") as folder:
        permits, books = Path(folder) / "permits", Path(folder) / "books"
        async with outbox.outbox(server) as (url, connection), Provider(books, []) as provider:
            # More than all phases and what is between them can send.
            await outbox.fill(connection, "sms", 2 * deliveries + 60 * LIMIT)
            with Replicas(url, provider.port, permits) as replicas:
                replicas.start()
                replicas.start()
                try:
                    begins = await _phases(replicas, connection, seconds)
                except BenchError as fault:
                    raise BenchError(f"{fault}\n{permits.with_name('log').read_text()[-LOG_SHOWN_MAX:]}") from fault
            calls = sorted((entry.first_at, 1) for entry in provider.entries().values())
        taken = _taken(permits)
    edges = [*begins.values(), float("inf")]
    worst = {phase: most(calls, begin, edges[place + 1]) for place, (phase, begin) in enumerate(begins.items())}
    if not all(worst.values()):
        raise BenchError(f"in some phase nothing was sent: {worst}")
    return worst | {"permits": most(taken, begins["both"], float("inf"))}


async def _phases(replicas: Replicas, connection: Connection, seconds: float) -> dict[str, float]:
    """Go through the phases; answers when each began."""
    await _instances(connection, 2)
    begins = {"both": time.monotonic()}
    await asyncio.sleep(seconds)
    begins["stopped"] = time.monotonic()
    replicas.members[1].signal(signal.SIGSTOP)
    await asyncio.sleep(max(seconds / 2, LEASE_SECONDS * 1.5))
    replicas.members[1].signal(signal.SIGCONT)
    await asyncio.sleep(seconds / 2)
    await _instances(connection, 2)
    begins["killed"] = time.monotonic()
    replicas.members[1].end()
    await asyncio.sleep(seconds)
    await _instances(connection, 1)
    begins["joins"] = time.monotonic()
    replicas.start()
    await _instances(connection, 2)
    await asyncio.sleep(seconds)
    return begins


async def _instances(connection: Connection, count: int) -> None:
    """Return when so many stand, and have sent for a moment."""
    for _ in range(int(START_SECONDS_MAX / STEP_SECONDS)):
        if await connection.fetchval("SELECT count(*) FROM dispatcher.instances") == count:
            return
        await asyncio.sleep(STEP_SECONDS)
    raise BenchError(f"there are not {count} instances within {START_SECONDS_MAX:g} s")


def _taken(path: Path) -> list[tuple[float, int]]:
    """Every time at which permits were taken, and how many; negative where some were given back."""
    lines = (line.split() for line in path.read_text().splitlines())
    return sorted((float(at), int(count)) for at, count in lines)


def most(events: Iterable[tuple[float, int]], begin: float, end: float) -> int:
    """The largest sum in any window of one second that begins between two times."""
    window: deque[tuple[float, int]] = deque()
    total = largest = 0
    for at, count in events:
        if at < begin or at >= end + 1.0:
            continue
        window.append((at, count))
        total += count
        while window[0][0] <= at - 1.0:
            total -= window.popleft()[1]
        if window[0][0] < end:
            largest = max(largest, total)
    return largest


# The build


def build() -> None:
    """Run the command line of this build."""
    from dispatcher.__main__ import main  # noqa: PLC0415 - it brings the whole program with it
    from dispatcher.engine.rules.rates import Rates  # noqa: PLC0415 - as above

    noted = os.open(sys.argv.pop(1), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    take = Rates.take

    def noting(self: Rates, now: float, wanted: int) -> int:
        taken = take(self, now, wanted)
        if taken and self.provider.rate > 0:
            os.write(noted, b"%f %d\n" % (time.monotonic(), taken))
        return taken

    Rates.take = noting  # type: ignore[method-assign]  # this build's difference
    main()
