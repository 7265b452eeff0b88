"""The database's vital signs: sizes, rows, connections, and what holds it up, as Postgres itself counts them."""

from msgspec import Struct

from dispatcher.db.database import Database
from dispatcher.db.statements import statements

_SQL = statements(__name__)


class Vitals(Struct, frozen=True):
    """The state of the server and of our database; what belongs to other roles is counted, but without its state."""

    bytes: int
    active: int
    idle: int
    idle_in_transaction: int
    other: int
    connections_max: int
    lock_waits: int
    oldest_transaction_seconds: float
    deadlocks: int


class Table(Struct, frozen=True):
    """A table of the schema: its size as of its last vacuum, indexes included, and its estimated rows."""

    name: str
    bytes: int
    live: int
    dead: int
    inserted: int


async def vitals(database: Database) -> Vitals:
    """Return the state of the server and of the database."""
    return Vitals(*(await database.fetch(_SQL["vitals"]))[0])


async def tables(database: Database) -> list[Table]:
    """Return the tables of the schema."""
    return [Table(*row) for row in await database.fetch(_SQL["tables"])]
