"""Suppressions and topic preferences: the list itself, how it changes, and who changed it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from dispatcher.base.values.addresses import Address
from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.engine.rules.suppression import Source

_SQL = statements(__name__)

Behind = tuple[str, ...]
LOG_MAX = 50


class Entry(Struct, frozen=True):
    """One address that is to get nothing more, on one channel or (empty) on any."""

    address: Address
    source: Source
    reason: str
    channel: str = ""
    expires_at: datetime | None = None


async def add(database: Database, tenant_id: str, actor: str, entries: Sequence[Entry]) -> None:
    """Put addresses on the list, all or none. What is queued for them is skipped afterwards: `barring.catch_up`."""
    await database.fetch(_SQL["add"], *_columns(tenant_id, actor, entries))


def _columns(tenant_id: str, actor: str, entries: Sequence[Entry]) -> tuple[object, ...]:
    return (
        tenant_id,
        actor,
        [one.address.kind for one in entries],
        [one.address.text for one in entries],
        [one.channel for one in entries],
        [one.source for one in entries],
        [one.expires_at for one in entries],
        [one.reason for one in entries],
    )


async def release(
    database: Database,
    tenant_id: str,
    addresses: Sequence[Address],
    actor: str,
    reason: str,
    *,
    source: str | None = None,
    channel: str | None = None,
) -> list[dict[str, Any]]:
    """Take addresses off the list; answers the entries that went."""
    kinds, texts = [one.kind for one in addresses], [one.text for one in addresses]
    rows = await database.fetch(_SQL["release"], tenant_id, kinds, texts, source, actor, reason, channel)
    return [dict(found) for found in rows]


async def listed(
    database: Database,
    tenant_id: str,
    behind: Behind,
    count: int,
    *,
    source: str | None = None,
    kind: str | None = None,
) -> list[dict[str, Any]]:
    """What stands on the list, behind a kind, address, channel and source."""
    return [dict(found) for found in await database.fetch(_SQL["list"], tenant_id, source, kind, *behind, count)]


async def entries(database: Database, tenant_id: str, one: Address) -> list[dict[str, Any]]:
    """What stands about an address."""
    return [dict(found) for found in await database.fetch(_SQL["entries"], tenant_id, one.kind, one.text)]


async def log(database: Database, tenant_id: str, one: Address) -> list[dict[str, Any]]:
    """What was said about an address, by whom and why."""
    return [dict(found) for found in await database.fetch(_SQL["log"], tenant_id, one.kind, one.text, LOG_MAX)]


async def prefer(
    database: Database,
    tenant_id: str,
    addresses: Sequence[Address],
    topic: str,
    subscribed: bool,
    actor: str,
    reason: str,
) -> None:
    """Say whether addresses want a topic."""
    kinds, texts = [one.kind for one in addresses], [one.text for one in addresses]
    await database.fetch(_SQL["prefer"], tenant_id, kinds, texts, topic, subscribed, actor, reason)


async def preferences(
    database: Database,
    tenant_id: str,
    behind: Behind,
    count: int,
    *,
    topic: str | None = None,
    of: Address | None = None,
) -> list[dict[str, Any]]:
    """What addresses said about topics, behind a kind, address and topic."""
    meant = (None, None) if of is None else (of.kind, of.text)
    rows = await database.fetch(_SQL["preferences"], tenant_id, topic, *meant, *behind, count)
    return [dict(found) for found in rows]
