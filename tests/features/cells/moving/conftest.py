"""Two cells, each with ids of its own, and moves between them: databases of one server, or each on its own server."""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import asyncpg
import pytest
from msgspec import Struct, field

from dispatcher.db.schema import migrator
from dispatcher.features.cells.moving.cell_connections import Place, connected
from dispatcher.features.cells.moving.mover import Mover
from dispatcher.features.cells.moving.moves import Result
from tests.features.cells.conftest import server
from tests.support.databases import TEMPLATE, new_database
from tests.support.scene import Connection
from tests.support.waits import until

TENANT = "default"


class Cells(Struct):
    """Two cells; a move is asked for in a fresh pair of connections each, as the command does."""

    urls: tuple[str, str]
    first: Connection
    second: Connection
    told: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def mover(self, source: int = 1, tenant: str = TENANT) -> AsyncIterator[Mover]:
        """A mover from one of them to the other."""
        places = [Place(number, self.urls[number - 1], f"https://cell{number}") for number in (source, 3 - source)]
        processes: list[int] = []
        try:
            async with connected(places[0]) as here, connected(places[1]) as there:
                processes = [*here.processes(), *there.processes()]
                yield Mover(here, there, tenant, self.told.append)
        finally:
            await until(lambda: self._are_gone(processes), "its sessions have ended, and their locks with them")

    async def _are_gone(self, processes: list[int]) -> bool:
        left = "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY ($1) AND datname = current_database()"
        return not sum([await one.fetchval(left, processes) for one in (self.first, self.second)])

    async def move(self, source: int = 1, tenant: str = TENANT) -> Result:
        """Move a tenant, or go on with it."""
        async with self.mover(source, tenant) as mover:
            await mover.open("ann", "a larger server")
            return await mover.run()

    async def cancel(self) -> None:
        """Cancel a move."""
        async with self.mover() as mover:
            await mover.cancel()

    async def states(self, tenant: str = TENANT) -> tuple[str | None, str | None]:
        """Where the tenant is, as each cell has it."""
        asked = "SELECT state FROM dispatcher.tenant_placements WHERE tenant_id = $1"
        return await self.first.fetchval(asked, tenant), await self.second.fetchval(asked, tenant)


@asynccontextmanager
async def _joined(one: str, other: str) -> AsyncIterator[Cells]:
    connections = [await asyncpg.connect(url) for url in (one, other)]
    try:
        for number, connection in enumerate(connections, 1):
            await connection.execute("SELECT dispatcher.join_cells($1::smallint)", number)
        yield Cells((one, other), first=connections[0], second=connections[1])
    finally:
        for connection in connections:
            await connection.close()


@pytest.fixture
async def cells(template: str) -> AsyncIterator[Cells]:
    """Two cells of a test's own."""
    async with (
        new_database(template, TEMPLATE) as one,
        new_database(template, TEMPLATE) as other,
        _joined(one, other) as both,
    ):
        yield both


@pytest.fixture
async def far_cells() -> AsyncIterator[tuple[Cells, str]]:
    """Two cells on a server each, and the address of a third, which is dead."""
    async with AsyncExitStack() as stack:
        (one, _), (other, _), (dead, process) = (stack.enter_context(server()) for _ in range(3))
        for url in (one, other, dead):
            await migrator.migrate(url)
        os.kill(process, signal.SIGQUIT)
        yield await stack.enter_async_context(_joined(one, other)), dead
