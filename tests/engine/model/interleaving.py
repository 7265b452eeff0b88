"""Interleavings: two statements on two connections, one of them held open before its commit while the other comes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
from msgspec import Struct

from dispatcher.db.statements import statements
from tests.support.scene import Connection
from tests.support.waits import until_blocked


class Statement(Struct, frozen=True):
    """One autocommit statement, by its file's module and its name, with what it is given. The engine's go by file."""

    file: str
    name: str
    arguments: tuple[Any, ...]

    async def run(self, connection: Connection) -> list[tuple[Any, ...]]:
        """Its rows."""
        module = self.file if "." in self.file else f"dispatcher.engine.store.{self.file}"
        return [tuple(row) for row in await connection.fetch(statements(module)[self.name], *self.arguments)]


class Met(Struct, frozen=True):
    """How two met: whether the second waited for the first, and what each answered."""

    waited: bool
    first: list[tuple[Any, ...]]
    second: list[tuple[Any, ...]]


class Pair:
    """Two sessions that meet, and a third that watches them."""

    def __init__(self, first: Connection, second: Connection, watcher: Connection) -> None:
        self._first = first
        self._second = second
        self._watcher = watcher

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str) -> AsyncIterator["Pair"]:
        """Three connections for a while."""
        connections = [await asyncpg.connect(url) for _ in range(3)]
        try:
            yield cls(*connections)
        finally:
            for connection in connections:
                connection.terminate()

    async def meet(self, first: Statement, second: Statement) -> Met:
        """The first has done its work and not committed yet when the second begins."""
        transaction = self._first.transaction()
        await transaction.start()
        earlier = await first.run(self._first)
        running = asyncio.create_task(second.run(self._second))
        watching = asyncio.create_task(until_blocked(self._watcher))
        # It ends, or it waits: one of the two comes.
        await asyncio.wait([running, watching], return_when=asyncio.FIRST_COMPLETED)
        waited = not running.done()
        watching.cancel()
        await transaction.commit()
        return Met(waited, earlier, await running)
