"""Held deliveries: a call was begun and its outcome is unknown. An operator settles them, or their time runs out."""

from datetime import datetime

from msgspec import Struct

from dispatcher.db.database import Database
from dispatcher.db.statements import statements

_SQL = statements(__name__)


class QuarantineCounts(Struct, frozen=True):
    """The deliveries that another copy of this database may have sent."""

    deliveries: int
    runs: int
    campaign_runs: int = 0


async def counts(database: Database) -> dict[str, int]:
    """How many are held, by channel."""
    return {found["channel"]: found["deliveries"] for found in await database.fetch(_SQL["count"])}


async def settle(
    database: Database, delivery_id: int, settle_as: str, actor: str, reason: str, message_id: str | None = None
) -> str:
    """Settle one; answers settled, unknown, early, not held, or the status that it has already."""
    return str(await database.value(_SQL["settle"], delivery_id, settle_as, actor, reason, message_id))


async def overdue(database: Database, channel: str, seconds: float, page: int) -> list[int]:
    """The deliveries of a channel that are held for longer than this."""
    return [found["id"] for found in await database.fetch(_SQL["overdue"], channel, seconds, page)]


async def settle_by_evidence(database: Database) -> int:
    """Settle what a late answer has already settled in fact; says how many it were."""
    return int(await database.value(_SQL["settle_by_evidence"]))


async def to_quarantine(database: Database, before: datetime) -> QuarantineCounts:
    """How many a quarantine would hold and pause."""
    return QuarantineCounts(*(await database.fetch(_SQL["to_quarantine"], before))[0])


async def quarantine(database: Database, before: datetime, actor: str, reason: str) -> QuarantineCounts:
    """Hold everything that is due and was created before a time, and pause its runs; says how many it were."""
    return QuarantineCounts(*(await database.fetch(_SQL["quarantine"], before, actor, reason))[0])


async def expire(database: Database, page: int) -> int:
    """Skip what waits and has expired; says how many it were."""
    return int(await database.value(_SQL["expire"], page))
