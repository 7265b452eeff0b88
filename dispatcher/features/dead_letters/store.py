"""Dead letters in the database: found by filter, replayed and discarded."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.features.dead_letters.models import MANY, DeadLetterFilter, Kind, Verb

_SQL = statements(__name__)


async def page(
    database: Database,
    kind: Kind,
    scope: tuple[str | None, str | None],
    meant: DeadLetterFilter,
    until: datetime | None,
    *,
    below: int,
    count: int,
) -> list[int]:
    """Return the ids of the newest of a kind below an id, of one workspace or of all, that failed before `until`."""
    asked = meant.name, meant.channel, *scope, meant.since, until, meant.error
    return [row["id"] for row in await database.fetch(_SQL[f"newest_{MANY[kind]}"], below, count, *asked)]


async def rows(database: Database, kind: Kind, ids: Sequence[int]) -> list[dict[str, Any]]:
    """Return those of these ids that are dead letters now, the newest first."""
    return [dict(row) for row in await database.fetch(_SQL["rows"], kind, ids)]


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
