"""Invariants: queries that must return no row, on any database at any time."""

from msgspec import Struct

from dispatcher.config.settings import Campaigns
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


async def check(database: Database, invariant: str, lock_seconds: float = Campaigns().lock_seconds) -> Violation | None:
    """Return the violation of one invariant, or None; `lock_seconds` is that of the campaigns in the configuration."""
    arguments = (lock_seconds,) if "$1" in _SQL[invariant] else ()
    ids = f"(array_agg(id ORDER BY id))[1:{SHOWN_MAX}]"
    query = f"SELECT count(*) AS count, {ids} AS ids FROM ({_SQL[invariant]}) AS found"  # noqa: S608 - our own statement
    rows = await database.fetch(query, *arguments)
    found = rows[0]
    return Violation(invariant, found["count"], list(found["ids"])) if found["count"] else None
