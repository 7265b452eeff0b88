"""Connections to the two cells of a move: of each one for statements and one for rows."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from msgspec import Struct

from dispatcher.base.errors import MoveInterrupted
from dispatcher.db import pooler
from dispatcher.db.database import connecting
from dispatcher.db.schema import migrator
from dispatcher.db.statements import statements
from dispatcher.features.cells.moving.rows.digests import Columns, Connection, Side, columns_of

_SQL = statements("dispatcher.features.cells.moving.moves")

NAME = "dispatcher move"
CONNECT_SECONDS_MAX = 10.0
SESSION = {
    # Sums over whole tables are sorted and hashed in memory.
    "work_mem": "64MB",
    "jit": "off",
    # What one cell has closed stays closed, whatever happens to its server before the other one opens.
    "synchronous_commit": "on",
    # A server notices during a statement that we have died, so that the next mover is not kept waiting by it.
    "client_connection_check_interval": "1s",
}
# Rows come as they are: no trigger holds, announces or counts them. Postgres' own restore does the same.
AS_THEY_ARE = "SET session_replication_role = replica"
AS_USUAL = "SET session_replication_role = origin"


class Place(Struct, frozen=True):
    """A cell as the directory has it: its number, the URL of its Postgres, and its address for users."""

    number: int
    database: str
    url: str = ""


class Cell(Struct):
    """A cell with its connections: `control` commits each statement, `data` has transactions with rows."""

    place: Place
    control: Connection
    data: Connection
    columns: Mapping[str, Columns]

    @property
    def number(self) -> int:
        return self.place.number

    def processes(self) -> list[int]:
        """Return the server's processes of these connections."""
        return [self.control.get_server_pid(), self.data.get_server_pid()]

    def side(self, tenant: str, *, is_source: bool = False) -> Side:
        """Return the rows of a tenant in this cell."""
        return Side(self.data, tenant, self.columns, is_source)


@asynccontextmanager
async def connected(place: Place) -> AsyncIterator[Cell]:
    """Yield a cell with this release's schema."""
    async with AsyncExitStack() as stack:
        control, data = [await _connect(stack, place) for _ in range(2)]
        await migrator.require(control)
        yield Cell(place, control, data, await columns_of(control))


async def _connect(stack: AsyncExitStack, place: Place) -> Connection:
    connection = await connecting(pooler.connect(place.database, NAME, connect_seconds_max=CONNECT_SECONDS_MAX))
    stack.callback(connection.terminate)
    await connection.execute("; ".join(f"SET {name} = '{value}'" for name, value in SESSION.items()))
    return connection


async def lock(cell: Cell, tenant: str) -> None:
    """Keep other movers of the tenant from this cell until the end. Raises MoveInterrupted where one is at work."""
    if not await cell.data.fetchval(_SQL["lock"], tenant):
        raise MoveInterrupted(
            f"another process moves tenant {tenant} just now, or has died a moment ago: try again when it has ended"
        )
