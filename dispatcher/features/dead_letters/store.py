"""Dead letters in the database: found by filter, replayed and discarded."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.features.dead_letters.models import MANY, DeadLetterFilter, Kind, Verb

_SQL = statements(__name__)

# A filter looks at so many before it answers with what it has found so far.
LOOKED_MAX = 2_000


async def page(
    database: Database,
    kind: Kind,
    scope: tuple[str | None, str | None],
    meant: DeadLetterFilter,
    until: datetime | None,
    *,
    below: int,
    count: int,
) -> tuple[list[int], int | None]:
    """Return the ids of the newest of a kind below an id, of one workspace or of all, that failed before `until`.

    With an id below which the search goes on, where it has looked at as many as it may.
    """
    asked = meant.name, meant.channel, *scope, meant.since, until, meant.error
    if kind != "delivery":
        return [row["id"] for row in await database.fetch(_SQL[f"newest_{MANY[kind]}"], below, count, *asked)], None
    looked = LOOKED_MAX if any((meant.name, meant.channel, meant.error, meant.since, until)) else count
    rows = await database.fetch(_SQL["newest_deliveries"], below, count, *asked, max(looked, count))
    ids = [row["id"] for row in rows if row["matches"]]
    ends = [row["id"] for row in rows if not row["matches"]]
    return ids, ends[0] if ends and len(ids) < count else None


async def rows(database: Database, kind: Kind, ids: Sequence[int]) -> list[dict[str, Any]]:
    """Return those of these ids that are dead letters now, the newest first."""
    return [dict(row) for row in await database.fetch(_SQL["rows"], kind, ids)]


async def group_deliveries(
    database: Database, scope: tuple[str | None, str | None], meant: DeadLetterFilter, below: int, most: int, count: int
) -> list[dict[str, Any]]:
    """Return the largest groups of the newest dead deliveries, `most` of them, with the same channel and error."""
    asked = meant.name, meant.channel, *scope, meant.since, meant.until, meant.error
    looked = LOOKED_MAX if any(asked[:2]) or any(asked[4:]) else most
    rows = await database.fetch(_SQL["group_deliveries"], below, most, *asked, looked, count)
    return [dict(row) for row in rows]


async def groups(database: Database, kind: Kind, ids: Sequence[int], count: int) -> list[dict[str, Any]]:
    """Return the largest groups of these with the same name, channel and error."""
    return [dict(row) for row in await database.fetch(_SQL["groups"], kind, ids, count)]


async def counts(database: Database, counted_max: int) -> dict[str, int]:
    """Return how many there are of each kind, in all workspaces, counted up to a bound."""
    return {row["kind"]: row["letters"] for row in await database.fetch(_SQL["counts"], counted_max)}


async def job_owner(database: Database, job_id: int) -> dict[str, Any] | None:
    """Return the tenant and workspace of a job of a campaign, or None."""
    rows = await database.fetch(_SQL["job_owner"], job_id)
    return dict(rows[0]) if rows else None


async def act(
    database: Database, verb: Verb, kind: Kind, ids: Sequence[int], reason: str, actor: str
) -> dict[int, str]:
    """Replay or discard these in one transaction; return the answer for each that exists."""
    found = await database.fetch(_SQL[f"{verb}_{MANY[kind]}"], ids, reason, actor)
    return {row["id"]: row["answer"] for row in found}
