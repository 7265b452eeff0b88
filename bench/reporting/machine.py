"""The machine on which a report was made: without it its absolute numbers say nothing."""

import os
import platform
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

import psutil
from msgspec import Struct

from bench.process import ROOT
from bench.server import Server, connected

GIBIBYTE = 1 << 30


class Machine(Struct, frozen=True):
    """What its numbers depend on. `load` is the number of processes that wanted to run before the report was begun."""

    processor: str
    cores: int
    memory_gibibytes: float
    system: str
    python: str
    postgres: str
    folder: str
    load: float
    commit: str

    @property
    def lines(self) -> Iterable[tuple[str, str]]:
        """Name and value of each line of the description."""
        return (
            ("processor", f"{self.processor}, {self.cores} cores"),
            ("memory", f"{self.memory_gibibytes:.1f} GiB"),
            ("system", self.system),
            ("Python", self.python),
            ("Postgres", self.postgres),
            ("folder of the databases", self.folder),
            ("load when it began", f"{self.load:.2f}"),
            ("commit", self.commit),
        )


async def describe(server: Server) -> Machine:
    """Describe this machine, and the server on it."""
    async with server.database() as url, connected(url) as connection:
        postgres = await connection.fetchval("SHOW server_version")
    place = tempfile.gettempdir()
    return Machine(
        processor=_processor(),
        cores=len(os.sched_getaffinity(0)),
        memory_gibibytes=psutil.virtual_memory().total / GIBIBYTE,
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        postgres=str(postgres),
        folder=f"{place} ({_file_system(place)})",
        load=os.getloadavg()[0],
        commit=_commit(),
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def _file_system(place: str) -> str:
    """The kind of the file system that a folder is on: that of the longest mount point above it."""
    above = [one for one in psutil.disk_partitions(all=True) if Path(place).is_relative_to(one.mountpoint)]
    return max(above, key=lambda one: len(one.mountpoint)).fstype if above else "unknown"


def _commit() -> str:
    asked = ("git", "describe", "--always", "--dirty", "--abbrev=12")
    try:
        said = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return said.stdout.strip()
