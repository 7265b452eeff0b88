"""What an image promises of a container, tried on one: the same for a root of this machine and for the built one."""

import asyncio
import http.client
import signal
import socket
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from dispatcher.selftest.proxy import Proxy
from tests.image.sandbox import Container

READY_SECONDS_MAX = 60.0
STEP_SECONDS = 0.02
# What a container's program tries to write, and may not.
WRITES = """
import errno, os
for place in ("/opt/dispatcher/x", "/usr/x", "/etc/x", "/x"):
    try:
        open(place, "w")
    except OSError as refused:
        print("refused" if refused.errno in (errno.EROFS, errno.EACCES) else refused)
print(os.getuid(), os.getgid(), os.getpid())
open("/tmp/x", "w")
"""


def over_tcp(url: str) -> Proxy:
    """A way to the server of the tests, whose socket no other user can reach."""
    folder = parse_qs(urlsplit(url).query)["host"][0]
    return Proxy("127.0.0.1", f"{folder}/.s.PGSQL.5432")


def url_of(url: str, proxy: Proxy) -> str:
    """The URL of a database by that way."""
    parts = urlsplit(url)
    return f"postgresql://{parts.username}:any@127.0.0.1:{proxy.port}{parts.path}"


def free_port() -> int:
    """A port that nobody has now: the image listens on a fixed one."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def answered(port: int, path: str) -> int:
    """The status of a page of the program; 0 where nothing answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


async def ready(container: Container, port: int, log: Path, *arguments: str) -> float:
    """Start it; the seconds until it takes work."""
    began = time.monotonic()
    container.start(log, *arguments)
    assert container.process is not None
    for _ in range(int(READY_SECONDS_MAX / STEP_SECONDS)):
        if await asyncio.to_thread(answered, port, "/readyz") == 200:
            return time.monotonic() - began
        assert container.process.poll() is None, log.read_text()
        await asyncio.sleep(STEP_SECONDS)
    raise AssertionError(f"not ready within {READY_SECONDS_MAX} s:\n{log.read_text()}")


async def tried(container: Container, port: int, folder: Path) -> float:
    """Migrate, serve, ask for health and drain; the seconds of a start."""
    wrote = await asyncio.to_thread(container.run, "python", "-c", WRITES)
    assert (wrote.returncode, wrote.stdout) == (0, "refused\n" * 4 + "10001 10001 1\n"), wrote
    behind = await asyncio.to_thread(container.dispatcher, "migrate", "--check")
    assert behind.returncode == 1, behind
    migrated = await asyncio.to_thread(container.dispatcher, "migrate")
    assert migrated.returncode == 0, migrated
    assert not await asyncio.to_thread(container.healthy)
    seconds = await ready(container, port, folder / "log", "serve")
    assert await asyncio.to_thread(container.healthy)
    assert await asyncio.to_thread(container.stop, signal.SIGTERM) == 0
    log = (folder / "log").read_text()
    assert "draining" in log, log
    return seconds
