"""A session: the run of a command, with its configuration, its output, and a database or a server while needed."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg
import structlog
import uvloop
from msgspec import structs

from channels.registry import PROVIDERS
from dispatcher.base.directory import DirectoryFile, Entry
from dispatcher.base.errors import ConfigError, DatabaseUnavailable, Fault, NoRemoteForm, OtherCell
from dispatcher.base.schema_name import render
from dispatcher.cli.calls.server_address import URL, Address
from dispatcher.cli.calls.server_address import read as read_address
from dispatcher.cli.failures import FORBIDDEN
from dispatcher.cli.terminal.console import Output
from dispatcher.config import load
from dispatcher.config.redacted import hide_password
from dispatcher.config.settings import Config
from dispatcher.db import embedded
from dispatcher.db.cells import TenantElsewhere
from dispatcher.db.database import PASSING, SESSION, Database
from dispatcher.db.schema import migrator

if TYPE_CHECKING:
    from dispatcher.client.transport import Transport

# A Postgres that restarts is back within this; a user at a prompt waits no longer.
WAIT_SECONDS_MAX = 5.0
WAIT_STEP_SECONDS = 0.2
# The smallest that the configuration allows: a command runs one statement at a time.
POOL_MAX = 4
# A billion rows can be read within it; what takes longer hangs.
SLOW_STATEMENT_SECONDS_MAX = 6 * 3_600.0
# Statements that read whole tables are planned freely: without the plans that the hot statements forbid.
SLOW_SESSION = {"application_name": "dispatcher operator", "timezone": "UTC"}

# With it, or a configuration file, a command that calls a server finds that of its tenant's cell.
DIRECTORY = "DISPATCHER_CELL__DIRECTORY"

T = TypeVar("T")


class Session:
    """The run of a command."""

    def __init__(self, config_path: Path | None, as_json: bool) -> None:
        self.config_path = config_path
        self.output = Output(as_json)
        self._runner: asyncio.Runner | None = None
        self._url = ""
        # What the owner does in all cells is also done to tenants that are elsewhere.
        self.in_all_cells = False

    def read(self) -> Config:
        """Read the configuration."""
        return load(self.config_path, os.environ, PROVIDERS)

    @cached_property
    def config(self) -> Config:
        """The configuration at the start of the command."""
        return self.read()

    def enter(self, entry: Entry) -> None:
        """Work in a cell from now on: on its database, or through its server."""
        if self.address is not None:
            self.__dict__["address"] = structs.replace(self.address, url=entry.url.rstrip("/"))
        elif entry.number != self.config.cell.number:
            if not entry.database:
                words = f"has no `database` for cell {entry.number}: add it, or set {URL} to call that cell's server"
                raise ConfigError([Fault("cell.directory", words)])
            database = structs.replace(self.config.database, url=entry.database, listen_url="")
            cell = structs.replace(self.config.cell, number=entry.number)
            self.__dict__["config"] = structs.replace(self.config, database=database, cell=cell)

    def enter_cell_of(self, tenant: str) -> None:
        """Work in the cell of a tenant, where there is a directory of cells."""
        if self.address is not None and self.config_path is None and DIRECTORY not in os.environ:
            return
        if self.config.cell.directory:
            self.enter(DirectoryFile(self.config.cell.directory).read().home(tenant))

    def launch(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on a loop of its own."""
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(main)

    @cached_property
    def address(self) -> Address | None:
        """The server that commands call; None where they work on a database."""
        return read_address(os.environ)

    @contextmanager
    def transport(self) -> Iterator["Transport"]:
        """A transport to the server that the environment names; `run` uses it meanwhile."""
        from dispatcher.client.transport import Transport  # noqa: PLC0415 - it takes a third of all imports' time

        if self.address is None:
            raise RuntimeError("the environment names no server")
        hush()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            self._runner = runner
            transport = Transport(self.address.url, self.address.key)
            try:
                yield transport
            finally:
                runner.run(transport.aclose())
                self._runner = None

    def require_local(self) -> None:
        """Raise NoRemoteForm where the environment names a server."""
        if self.address is not None:
            raise NoRemoteForm(
                f"this works on a database, and cannot be done through {self.address.url}: unset {URL} to work on the "
                "database of the configuration"
            )

    @contextmanager
    def database(self, *, slow: bool = False) -> Iterator[Database]:
        """A database with our schema, `slow` for statements that read whole tables; `run` uses it meanwhile.

        The loop runs only inside `run`, so that Ctrl-C ends a command at once also where it waits for its input.
        """
        self.require_local()
        hush()
        self._url, server = embedded.start_unless_configured(self.config.database)
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                self._runner = runner
                database = runner.run(self._open(slow))
                try:
                    yield database
                finally:
                    runner.run(database.close())
        finally:
            self._runner = None
            if server is not None:
                server.cleanup()

    async def _open(self, slow: bool) -> Database:
        settings = structs.replace(self.config.database, pool_max=POOL_MAX, connect_seconds_max=WAIT_SECONDS_MAX)
        if slow:
            settings = structs.replace(settings, statement_seconds_max=SLOW_STATEMENT_SECONDS_MAX)
        elsewhere = {render("dispatcher.copying"): "yes"} if self.in_all_cells else {}
        database = Database(settings, self._url, (SLOW_SESSION if slow else SESSION) | elsewhere)
        await database.open()

        async def require() -> None:
            async with database.connection() as connection:
                await migrator.require(connection)

        try:
            await patiently(require, self._url)
        except BaseException:
            await database.close()
            raise
        return database

    def run(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Run an operation that may be repeated on the open database until Postgres takes it, within bounds.

        A server is called once: the transport repeats what is safe.
        """
        if self._runner is None:
            raise RuntimeError("there is no database open")
        if self.address is not None:
            return self._runner.run(_awaited(operation))
        return self._runner.run(patiently(operation, self._url))


async def _awaited(operation: Callable[[], Awaitable[T]]) -> T:
    return await operation()


async def patiently(operation: Callable[[], Awaitable[T]], url: str) -> T:
    """Run an operation until Postgres takes it, or for WAIT_SECONDS_MAX."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    deadline = begun + WAIT_SECONDS_MAX
    while True:
        try:
            return await operation()
        except TenantElsewhere as refused:
            raise OtherCell(str(refused.args[0])) from refused
        except (asyncpg.ClientConfigurationError, *FORBIDDEN) as refused:
            raise _unavailable(url, refused) from refused
        except PASSING as trouble:
            if loop.time() >= deadline:
                raise _unavailable(url, trouble, loop.time() - begun) from trouble
            await asyncio.sleep(WAIT_STEP_SECONDS)


def _unavailable(url: str, trouble: BaseException, waited_seconds: float = 0.0) -> DatabaseUnavailable:
    where = hide_password(url) if url else "embedded database"
    why = str(trouble) or type(trouble).__name__
    if isinstance(trouble, TimeoutError):
        why = f"waited {waited_seconds:.2g} s for its answer"
    return DatabaseUnavailable(f"cannot use the database {where}: {why}")


def hush() -> None:
    """Drop all log lines: structlog's default prints them to standard output."""
    structlog.configure(processors=[_drop])


def _drop(_logger: object, _method: str, _event: structlog.typing.EventDict) -> str:
    raise structlog.DropEvent
