"""Invariants: queries that must return no row, on any database at any time."""

from msgspec import Struct

from dispatcher.db.database import Database
from dispatcher.db.statements import statements

_SQL = statements(__name__)
SHOWN_MAX = 20


class Violation(Struct, frozen=True):
    """An invariant that does not hold, and some of the ids for which it does not."""

    invariant: str
    count: int
    ids: list[int]


def invariants() -> list[str]:
    return list(_SQL)


async def check(database: Database, invariant: str) -> Violation | None:
    """Return the violation of one invariant, or None."""
    rows = await database.fetch(
        f"SELECT count(*) AS count, (array_agg(id ORDER BY id))[1:{SHOWN_MAX}] AS ids FROM ({_SQL[invariant]}) AS found"  # noqa: S608 - our own statement
    )
    found = rows[0]
    return Violation(invariant, found["count"], list(found["ids"])) if found["count"] else None
