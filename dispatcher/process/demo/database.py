"""The demonstration's database: made by itself, as a mark in it says, and used by no other process."""

from typing import Any

import asyncpg

from dispatcher.base.errors import DemonstrationRefused
from dispatcher.db.renaming import CONNECTION
from dispatcher.db.schema import migrator
from dispatcher.db.schema.migrator import Migration
from dispatcher.db.statements import statements

# The name of its instances, by which a new one recognises what a killed one has left.
NAME = "demonstration"
# The comment of the schema, written as that is made.
MARK = "made by the demonstration"

_SQL = statements(__name__)


async def prepare(url: str) -> list[Migration]:
    """Make an empty database the demonstration's, or bring its own up to date. Raises DemonstrationRefused."""
    connection = await asyncpg.connect(url, connection_class=CONNECTION)
    try:
        async with connection.transaction():
            (found,) = await connection.fetch(_SQL["standing"], MARK)
            if not found["made"] and not found["used"]:
                await connection.execute(_SQL["make"])
                await connection.execute(f"COMMENT ON SCHEMA dispatcher IS '{MARK}'")
        await require(connection)
    finally:
        await connection.close()
    return await migrator.migrate(url)


async def require(connection: Any) -> None:  # noqa: ANN401 - a connection, or a pool that fetches as one does
    """Raise DemonstrationRefused unless a database is the demonstration's alone."""
    (found,) = await connection.fetch(_SQL["standing"], MARK)
    if not found["marked"]:
        raise DemonstrationRefused(
            "the demonstration starts only on a database that it made itself, and this is another: unset "
            "DISPATCHER_DATABASE_URL, or set DISPATCHER_DATABASE__DATA_DIR to a new folder"
        )
    # A first start may have been cut off before there were tables.
    others = await connection.fetch(_SQL["joined"], NAME) if found["migrated"] else []
    if others:
        names = ", ".join(row["name"] for row in others)
        raise DemonstrationRefused(f"a dispatcher works on the demonstration's database: stop it first ({names})")
