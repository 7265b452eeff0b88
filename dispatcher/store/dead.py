"""Dead letters: runs and deliveries that have failed for good, until somebody replays or discards them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from dispatcher.store.database import Database
from dispatcher.store.queries import statements

_SQL = statements("dead")

Kind = Literal["run", "delivery"]
Verb = Literal["replay", "discard"]
# In the order in which they are listed.
KINDS: tuple[Kind, ...] = ("run", "delivery")
_MANY = {"run": "runs", "delivery": "deliveries"}


class Letter(Struct, frozen=True):
    """Which one: both kinds have ids of their own."""

    kind: Kind
    id: int


class Filter(Struct, frozen=True, kw_only=True):
    """Which dead letters are meant; None: all. A name is a run's workflow, or a delivery's template."""

    kinds: Sequence[Kind] = KINDS
    name: str | None = None
    channel: str | None = None
    tenant_id: str | None = None
    workspace_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    error: str | None = None

    def columns(self) -> tuple[object, ...]:
        """What a statement is told of it."""
        return self.name, self.channel, self.tenant_id, self.workspace_id, self.since, self.until, self.error


async def page(database: Database, meant: Filter, kind: Kind, below: int, count: int) -> list[int]:
    """The newest of a kind below an id."""
    found = await database.fetch(_SQL[f"newest_{_MANY[kind]}"], below, count, *meant.columns())
    return [row["id"] for row in found]


async def rows(database: Database, kind: Kind, ids: Sequence[int]) -> list[dict[str, Any]]:
    """Those of a kind that are dead letters now, the newest first."""
    return [dict(row) for row in await database.fetch(_SQL["rows"], kind, ids)]


async def count(database: Database, meant: Filter, kind: Kind) -> tuple[int, datetime]:
    """How many of a kind there are, and when that was asked."""
    (row,) = await database.fetch(_SQL["count"], kind, *meant.columns())
    return row["letters"], row["asked_at"]


async def is_dead(database: Database, letter: Letter) -> bool:
    """Whether it is one."""
    return bool(await rows(database, letter.kind, [letter.id]))


async def act(
    database: Database, verb: Verb, kind: Kind, ids: Sequence[int], reason: str, actor: str
) -> dict[int, str]:
    """Replay or discard those of a kind, all in one transaction; the answer about each that there is."""
    rows = await database.fetch(_SQL[f"{verb}_{_MANY[kind]}"], ids, reason, actor)
    return {row["id"]: row["answer"] for row in rows}
