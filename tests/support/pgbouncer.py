"""A real pgbouncer in transaction mode before a test's server, on a free port of 127.0.0.1."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from textwrap import dedent
from typing import Self
from urllib.parse import parse_qs, urlsplit

PGBOUNCER = shutil.which("pgbouncer", path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin")))
KEEPS_STATEMENTS = (1, 21)
# Of each database. Fewer than the program's own connections, so that its transactions change sessions.
SERVER_CONNECTIONS = 5
SECONDS_MAX = 10.0
STEP_SECONDS = 0.02

SETTINGS = """\
    [databases]
    * = host={socket} user=postgres
    [pgbouncer]
    listen_addr = 127.0.0.1
    listen_port = {port}
    unix_socket_dir =
    auth_type = any
    pool_mode = transaction
    default_pool_size = {size}
    max_client_conn = 200
    server_login_retry = 1
    {more}
"""


def why_not() -> str:
    """Why there is none on this machine; empty where there is."""
    return "" if PGBOUNCER else "pgbouncer is not installed"


def keeps_statements() -> bool:
    """Whether this machine's version supports prepared statements."""
    if PGBOUNCER is None:
        return False
    said = subprocess.run([PGBOUNCER, "--version"], capture_output=True, check=True).stdout.decode()
    major, minor = said.split()[1].split(".")[:2]
    return (int(major), int(minor)) >= KEEPS_STATEMENTS


class Pgbouncer:
    """A pooler of all databases of a server, with few connections that all clients share."""

    def __init__(self, url: str, *settings: str) -> None:
        parts = urlsplit(url)
        self._folder = Path(tempfile.mkdtemp(prefix="dispatcher-pgbouncer-"))
        self._settings = settings
        self._socket = parse_qs(parts.query)["host"][0]
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.url = f"postgresql://postgres@127.0.0.1:{self._port}{parts.path}"

    async def __aenter__(self) -> Self:
        # Started as root, it changes to another user, who must read its settings.
        self._folder.chmod(0o755)
        text = dedent(SETTINGS).format(
            socket=self._socket, port=self._port, size=SERVER_CONNECTIONS, more="\n".join(self._settings)
        )
        (self._folder / "pgbouncer.ini").write_text(text, encoding="utf-8")
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    async def start(self) -> None:
        """Start it, and return when it listens."""
        self._process = self._launched()
        for _ in range(int(SECONDS_MAX / STEP_SECONDS)):
            with suppress(OSError):
                (await asyncio.open_connection("127.0.0.1", self._port))[1].close()
                return
            assert self._process.poll() is None, self.log()
            await asyncio.sleep(STEP_SECONDS)
        raise AssertionError(self.log())

    def _launched(self) -> "subprocess.Popen[bytes]":
        assert PGBOUNCER is not None
        # It refuses to run as root. The owner of the server's files may connect to its socket.
        user = ("-u", Path(self._socket).owner()) if os.geteuid() == 0 else ()
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen([PGBOUNCER, *user, self._folder / "pgbouncer.ini"], stderr=log)

    def kill(self) -> None:
        """kill -9: all connections break off, to both sides."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()

    def log(self) -> str:
        """Its log so far."""
        return (self._folder / "log").read_text(errors="replace")
