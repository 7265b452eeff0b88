"""The cost of the mark: the throughput with it, beside a build that calls providers without having marked anything.

`build` is the dispatcher with a bound on the size of a mark, and where that is asked for without the mark's statement:
it exists for this comparison, and keeps no promise.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import psutil

from bench import outbox
from bench.measure import Measure, beside, median
from bench.process import ROOT, Dispatcher
from bench.server import Server

DELIVERIES = 100_000
ROUNDS = 5

SIZES = {100: "protocol_cost", 20: "protocol_cost.at_20"}
LIMITS = {100: "limit 0.85", 20: "no limit: reported beside it"}
SETTINGS = {"CHANNELS__SMS__PROVIDER": "blackhole", "CHANNELS__SMS__MARKED_MAX": "2000"}

# Its arguments: the size, `mark` or `none`, and the command line.
START = "from bench.cases.protocol.cost import build; build()"

METHOD = (
    "{deliveries} pre-filled, {rounds} rounds in turn, medians; from the start of the instance to the last flush. Both "
    "sides claim, render, call blackhole and flush in portions of {size} at most; the reference mints its licences "
    "without the mark's statement and its commit. More is better; {limit}."
)

Marks = Literal["mark", "none"]


class Build(Dispatcher):
    """A dispatcher that is started through this file."""

    def __init__(self, url: str, size: int, marks: Marks) -> None:
        self._log = Path(tempfile.mkstemp(prefix="dispatcher-bench-", suffix=".log")[1])
        inherited = {name: text for name, text in os.environ.items() if not name.startswith("DISPATCHER_")}
        ours = {f"DISPATCHER_{name}": text for name, text in SETTINGS.items()}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", START, str(size), marks, "serve"],
                env=inherited | {"DISPATCHER_DATABASE_URL": url, "DISPATCHER_HTTP__PORT": "0"} | ours,
                stderr=log,
                cwd=ROOT,
            )
        self._seen = psutil.Process(self._process.pid)


@asynccontextmanager
async def _running(url: str, size: int, marks: Marks) -> AsyncIterator[Build]:
    build = Build(url, size, marks)
    try:
        yield build
    finally:
        await build.stop()


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Measure both sizes, each with and without alternately."""
    measures = []
    for size, case in SIZES.items():
        pairs = [
            (await _rate(server, deliveries, size, "mark"), await _rate(server, deliveries, size, "none"))
            for _ in range(rounds)
        ]
        marked, unmarked = (median(side) for side in zip(*pairs, strict=True))
        method = METHOD.format(deliveries=deliveries, rounds=rounds, size=size, limit=LIMITS[size])
        measures.append(beside(case, "deliveries/s", marked, "without the mark", unmarked, method))
    return measures


async def _rate(server: Server, deliveries: int, size: int, marks: Marks) -> float:
    async with outbox.outbox(server) as (url, connection):
        await outbox.fill(connection, "sms", deliveries)
        await outbox.settle(connection)
        async with _running(url, size, marks) as build:
            await build.started(connection)
            began = await connection.fetchval("SELECT min(started_at) FROM dispatcher.instances")
            await build.drained(connection, "sms")
        await outbox.require_sent(connection, "sms", deliveries)
        ended = await connection.fetchval("SELECT max(finished_at) FROM dispatcher.delivery_state")
    return deliveries / float((ended - began).total_seconds())


# The build


def _in_portions(size: int) -> None:
    """Let no caller take more than so many slots at a time: that is the size of a mark."""
    from dispatcher.engine.rules.life import Lane  # noqa: PLC0415 - as above
    from dispatcher.engine.slots import Slots  # noqa: PLC0415 - only the build has them

    take = Slots.take

    def some(self: Slots, lane: Lane, wanted: int) -> int:
        return take(self, lane, min(wanted, size))

    Slots.take = some  # type: ignore[method-assign]  # this build's difference


def _without_marks() -> None:
    """Mint licences without a mark, and flush what was never marked."""
    from channels.contract import Licence  # noqa: PLC0415 - only the build has them
    from dispatcher.db.database import Database  # noqa: PLC0415 - as above
    from dispatcher.engine.rules.life import Claimed  # noqa: PLC0415 - as above
    from dispatcher.engine.store import flushes, marks  # noqa: PLC0415 - as above

    async def mark(
        database: Database,
        epoch: int,
        batch: Sequence[Claimed],
        clock: Callable[[], float],
        licence_seconds: float,
        provider: str,
        same_pauses: Callable[[], bool] = lambda: True,
        *,
        limited: marks.LimitedMark | None = None,
    ) -> tuple[Licence, dict[int, int]]:
        del database, epoch, provider, same_pauses, limited
        return marks._mint(clock() + licence_seconds, clock), {item.id: item.used + 1 for item in batch}

    marks.mark = mark
    accepted = flushes._SQL["accepted"]
    changed = accepted.replace("true AS marked", "false AS marked").replace(
        "SET status = a.status", "SET attempt = s.attempt + 1, status = a.status"
    )
    if changed.count("attempt + 1") != 1 or changed.count("false AS marked") != 1:
        raise RuntimeError("the flush has another text than this comparison was written for")
    flushes._SQL["accepted"] = changed


def build() -> None:
    """Run the command line of this build."""
    from dispatcher.__main__ import main  # noqa: PLC0415 - it brings the whole program with it

    size, marks = int(sys.argv[1]), sys.argv[2]
    del sys.argv[1:3]
    _in_portions(size)
    if marks == "none":
        _without_marks()
    main()
