"""A session: one command under way, with its configuration, its output, and a database or a server while needed."""

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
from dispatcher.base.errors import DatabaseUnavailable, NoRemoteForm
from dispatcher.cli.calls.server_address import URL, Address
from dispatcher.cli.calls.server_address import read as read_address
from dispatcher.cli.failures import FORBIDDEN
from dispatcher.cli.terminal.console import Output
from dispatcher.config import load
from dispatcher.config.redacted import hide_password
from dispatcher.config.settings import Config
from dispatcher.db import embedded
from dispatcher.db.database import PASSING, Database
from dispatcher.db.schema import migrate

if TYPE_CHECKING:
    from dispatcher.client.transport import Transport

# A Postgres that restarts is back within this; who waits at a prompt wants to know.
WAIT_SECONDS_MAX = 5.0
WAIT_STEP_SECONDS = 0.2
# The smallest that the configuration allows: a command runs one statement at a time.
POOL_MAX = 4

T = TypeVar("T")


class Session:
    """What every command is given."""

    def __init__(self, config_path: Path | None, as_json: bool) -> None:
        self.config_path = config_path
        self.output = Output(as_json)
        self._runner: asyncio.Runner | None = None
        self._url = ""

    def read(self) -> Config:
        """Read the configuration, as it is now."""
        return load(self.config_path, os.environ, PROVIDERS)

    @cached_property
    def config(self) -> Config:
        """The configuration as the command found it."""
        return self.read()

    def launch(self, main: Coroutine[Any, Any, T]) -> T:
        """Run something to its end on a loop of its own."""
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(main)

    @cached_property
    def address(self) -> Address | None:
        """The server that commands speak to; None where they work on a database."""
        return read_address(os.environ)

    @contextmanager
    def transport(self) -> Iterator["Transport"]:
        """The server that the environment names; `run` speaks to it meanwhile."""
        # It takes as long to import as a third of everything else.
        from dispatcher.client.transport import Transport  # noqa: PLC0415 - as above

        if self.address is None:
            raise RuntimeError("the environment names no server")
        hush()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            self._runner = runner
            transport = Transport(self.address.url, self.address.key)
            try:
                yield transport
            finally:
                runner.run(transport.close())
                self._runner = None

    def require_local(self) -> None:
        """Refuse what works on a database where a server is meant. Raises NoRemoteForm."""
        if self.address is not None:
            raise NoRemoteForm(
                f"this works on a database, and cannot be done through {self.address.url}: unset {URL} to work on the "
                "database of the configuration"
            )

    @contextmanager
    def database(self) -> Iterator[Database]:
        """A database that has our schema; `run` speaks to it meanwhile.

        The loop turns only inside `run`, so that Ctrl-C ends a command at once also where it waits for its input.
        """
        self.require_local()
        hush()
        self._url, server = embedded.unless_configured(self.config.database)
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                self._runner = runner
                database = runner.run(self._open())
                try:
                    yield database
                finally:
                    runner.run(database.close())
        finally:
            self._runner = None
            if server is not None:
                server.cleanup()

    async def _open(self) -> Database:
        settings = structs.replace(self.config.database, pool_max=POOL_MAX, connect_seconds_max=WAIT_SECONDS_MAX)
        database = Database(settings, self._url)
        await database.open()

        async def require() -> None:
            async with database.connection() as connection:
                await migrate.require(connection)

        try:
            await patiently(require, self._url)
        except BaseException:
            await database.close()
            raise
        return database

    def run(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Run an operation that may be run twice on the open database, as often as it takes, within bounds.

        A server is asked once: what is safe is asked again by who speaks to it.
        """
        if self._runner is None:
            raise RuntimeError("there is no database open")
        if self.address is not None:
            return self._runner.run(_awaited(operation))
        return self._runner.run(patiently(operation, self._url))


async def _awaited(operation: Callable[[], Awaitable[T]]) -> T:
    return await operation()


async def patiently(operation: Callable[[], Awaitable[T]], url: str) -> T:
    """Run an operation until Postgres takes it, or until the wait is over."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + WAIT_SECONDS_MAX
    while True:
        try:
            return await operation()
        except (asyncpg.ClientConfigurationError, *FORBIDDEN) as refused:
            raise _unavailable(url, refused) from refused
        except PASSING as trouble:
            if loop.time() >= deadline:
                raise _unavailable(url, trouble) from trouble
            await asyncio.sleep(WAIT_STEP_SECONDS)


def _unavailable(url: str, trouble: BaseException) -> DatabaseUnavailable:
    where = hide_password(url) if url else "embedded database"
    return DatabaseUnavailable(f"cannot use the database {where}: {str(trouble) or type(trouble).__name__}")


def hush() -> None:
    """No log from a command that talks: structlog's default prints to standard output."""
    structlog.configure(processors=[_drop])


def _drop(_logger: object, _method: str, _event: structlog.typing.EventDict) -> str:
    raise structlog.DropEvent
