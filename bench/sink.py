"""smtp-sink and smtp-source, Postfix's own test programs: a server that throws mail away, and its client."""

import asyncio
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.measure import BenchError

# Debian has them on root's PATH only.
FOLDERS = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/lib/postfix/sbin"))
START_SECONDS_MAX = 10.0
STEP_SECONDS = 0.02
BACKLOG = 1_000


def program(name: str) -> str | None:
    """Where one of them is."""
    return shutil.which(name, path=FOLDERS)


def available() -> bool:
    """Whether both are installed: they come with Postfix."""
    return program("smtp-sink") is not None and program("smtp-source") is not None


@contextmanager
def sink(*arguments: str) -> Iterator[int]:
    """A sink on a free port of 127.0.0.1."""
    path = program("smtp-sink")
    if path is None:
        raise BenchError("smtp-sink is not installed: it comes with Postfix")
    port = free_port()
    # It drops privileges, and as root it must be told to whom.
    user = ("-u", "nobody") if os.geteuid() == 0 else ()
    running = subprocess.Popen(
        [path, *user, *arguments, f"127.0.0.1:{port}", str(BACKLOG)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _until_it_listens(port, running)
        yield port
    finally:
        running.kill()
        running.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _until_it_listens(port: int, running: "subprocess.Popen[bytes]") -> None:
    for _ in range(int(START_SECONDS_MAX / STEP_SECONDS)):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if running.poll() is not None:
            break
        time.sleep(STEP_SECONDS)
    raise BenchError(f"smtp-sink does not listen on port {port}")


async def source(port: int, messages: int, length: int, sessions: int) -> float:
    """Messages a second of smtp-source over so many connections, which it keeps."""
    path = program("smtp-source")
    if path is None:
        raise BenchError("smtp-source is not installed: it comes with Postfix")
    arguments = ("-d", "-s", str(sessions), "-m", str(messages), "-l", str(length))
    began = time.perf_counter()
    running = await asyncio.create_subprocess_exec(path, *arguments, f"127.0.0.1:{port}")
    if await running.wait():
        raise BenchError("smtp-source failed")
    return messages / (time.perf_counter() - began)
