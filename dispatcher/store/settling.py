"""Settling: held deliveries by filter and by the page, and where they stand afterwards."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from dispatcher.store.database import Database
from dispatcher.store.held import SettleAs, Suspects
from dispatcher.store.queries import statements

_SQL = statements("settling")


class Filter(Struct, frozen=True):
    """Which held deliveries are meant."""

    channel: str | None
    tenant_id: str | None
    workspace_id: str | None = None


class Standing(Struct, frozen=True):
    """Where a delivery stands, and who settled it last, if anybody did."""

    life: str
    held_at: datetime | None
    settle_after: datetime | None
    error: str | None
    wait_seconds: float | None
    actor: str | None
    action: str | None
    at: datetime | None
    reason: str | None


async def held_count(database: Database, meant: Filter) -> tuple[int, datetime]:
    """How many are held, and when that was asked."""
    found = (await database.fetch(_SQL["count"], meant.channel, meant.tenant_id, meant.workspace_id))[0]
    return found["deliveries"], found["asked_at"]


async def held_page(
    database: Database, meant: Filter, until: datetime, behind: tuple[datetime, int], count: int
) -> list[tuple[int, datetime]]:
    """Ids and times of the next ones."""
    whose = meant.tenant_id, until, *behind, count, meant.workspace_id
    rows = await database.fetch(_SQL["page"], meant.channel, *whose)
    return [(found["id"], found["held_at"]) for found in rows]


async def settle(
    database: Database, ids: Sequence[int], settle_as: SettleAs, actor: str, reason: str, message_id: str | None
) -> list[tuple[int, str]]:
    """Settle a page; the answer about each."""
    return [tuple(found) for found in await database.fetch(_SQL["settle"], ids, settle_as, actor, reason, message_id)]


async def standing(database: Database, ids: Sequence[int]) -> dict[int, Standing]:
    """Where these stand now."""
    return {found[0]: Standing(*found[1:]) for found in await database.fetch(_SQL["standing"], ids)}


async def suspects(database: Database, before: datetime) -> Suspects:
    """How many a quarantine would hold and pause."""
    return Suspects(*(await database.fetch(_SQL["suspects"], before))[0])
