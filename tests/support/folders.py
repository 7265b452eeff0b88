"""Places: where the servers of tests keep their data.

In memory where there is room: else a database of its own for each of a thousand tests is mostly waiting for a disk, to
write what is thrown away a second later. Nothing else differs: the servers are as durable as they know how to be.
"""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_NB, flock
from functools import cache
from pathlib import Path

import psutil

MEMORY = Path("/dev/shm")  # noqa: S108 - folders in it are made by mkdtemp
# What a server needs at the most, several times over: others want the same memory at the same time.
ROOM_BYTES_MIN = 4 * 1024**3
PREFIX = "dispatcher-"
# A folder this young may be about to be locked.
YOUNG_SECONDS = 60.0


@cache
def in_memory() -> bool:
    """Whether there is memory for servers; a container has often 64 MiB of it."""
    if not MEMORY.is_dir():
        return False
    return min(shutil.disk_usage(MEMORY).free, psutil.virtual_memory().available) >= ROOM_BYTES_MIN


@contextmanager
def folder(purpose: str) -> Iterator[Path]:
    """A folder for a server, with the server's own in it, for as long as it is needed."""
    if in_memory():
        _sweep()
    place = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{purpose}-", dir=MEMORY if in_memory() else None))
    try:
        with (place / "lock").open("w") as lock:
            flock(lock, LOCK_EX)
            yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _sweep() -> None:
    """Take away what those have left who were killed: memory does not wait for somebody to clean up."""
    for left in MEMORY.glob(f"{PREFIX}*/lock"):
        try:
            if time.time() - left.stat().st_mtime < YOUNG_SECONDS:
                continue
            with left.open() as lock:
                flock(lock, LOCK_EX | LOCK_NB)
                shutil.rmtree(left.parent, ignore_errors=True)
        except OSError:
            continue
