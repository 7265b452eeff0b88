"""Stored suppressions and topic preferences, with the log of their changes."""

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
    """An address to suppress, on one channel or (empty) on all."""

    address: Address
    source: Source
    reason: str
    channel: str = ""
    expires_at: datetime | None = None


async def add(database: Database, tenant_id: str, actor: str, entries: Sequence[Entry]) -> None:
    """Suppress addresses, all or none. `suppression.catch_up` skips what is queued for them."""
    rows = ((e.address.kind, e.address.text, e.channel, e.source, e.expires_at, e.reason) for e in entries)
    if entries:
        await database.fetch(_SQL["add"], tenant_id, actor, *map(list, zip(*rows, strict=True)))


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
    """Remove addresses from the list; returns the removed entries."""
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
    """Return entries of the list after a kind, address, channel and source."""
    return [dict(found) for found in await database.fetch(_SQL["list"], tenant_id, source, kind, *behind, count)]


async def entries(database: Database, tenant_id: str, one: Address) -> list[dict[str, Any]]:
    """Return the entries about an address."""
    return [dict(found) for found in await database.fetch(_SQL["entries"], tenant_id, one.kind, one.text)]


async def log(database: Database, tenant_id: str, one: Address) -> list[dict[str, Any]]:
    """Return the log of an address, newest first."""
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
    """Set whether addresses want a topic."""
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
    """Return topic preferences after a kind, address and topic."""
    one = (None, None) if of is None else (of.kind, of.text)
    rows = await database.fetch(_SQL["preferences"], tenant_id, topic, *one, *behind, count)
    return [dict(found) for found in rows]
