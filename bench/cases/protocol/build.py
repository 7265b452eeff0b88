"""The dispatcher with a bound on the size of a mark, and where that is asked for without the mark's statement.

It exists for comparisons, and keeps no promise: no setting of the product leaves the mark out.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import psutil

from bench.process import ROOT, Dispatcher

Marks = Literal["mark", "none"]
# Its arguments: the size, `mark` or `none`, and the command line.
START = "from bench.cases.protocol.build import build; build()"


class Build(Dispatcher):
    """A dispatcher that is started through this file."""

    def __init__(self, url: str, settings: dict[str, str], size: int, marks: Marks) -> None:
        self._log = Path(tempfile.mkstemp(prefix="dispatcher-bench-", suffix=".log")[1])
        inherited = {name: text for name, text in os.environ.items() if not name.startswith("DISPATCHER_")}
        ours = {f"DISPATCHER_{name}": text for name, text in settings.items()}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", START, str(size), marks, "serve"],
                env=inherited | {"DISPATCHER_DATABASE_URL": url, "DISPATCHER_HTTP__PORT": "0"} | ours,
                stderr=log,
                cwd=ROOT,
            )
        self._seen = psutil.Process(self._process.pid)


@asynccontextmanager
async def building(url: str, settings: dict[str, str], size: int, marks: Marks) -> AsyncIterator[Build]:
    """A build on a migrated database."""
    running = Build(url, settings, size, marks)
    try:
        yield running
    finally:
        await running.stop()


# What runs in it


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
        provider: str | Mapping[int, str],
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
