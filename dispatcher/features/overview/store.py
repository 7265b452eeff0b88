"""The overview in the database: throughput is recorded by dispatchers, the rest is counted when somebody looks."""

from collections.abc import Mapping, Sequence

import msgspec

from dispatcher.base.ended import Group
from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.engine.rules.life import Lane
from dispatcher.features.overview.models import (
    COUNT_MAX,
    KEPT_SECONDS,
    SHOWN_SECONDS,
    DeadCounts,
    HeldChannel,
    LaneBacklog,
    Minute,
    Replica,
)
from dispatcher.http.endpoints import Part

_SQL = statements(__name__)


async def record(database: Database, epoch: int, counts: Mapping[Group, int]) -> None:
    """Add what a dispatcher has counted since the last time."""
    columns = zip(*((*group, count) for group, count in counts.items()), strict=True)
    await database.fetch(_SQL["record"], epoch, *map(list, columns))


async def forget(database: Database) -> None:
    """Drop minutes that are not shown any more."""
    await database.fetch(_SQL["forget"], KEPT_SECONDS)


async def throughput(database: Database, tenant_id: str, workspace_id: str) -> list[Minute]:
    """Return the last hour of a workspace, or with empty names of all."""
    rows = await database.fetch(_SQL["throughput"], tenant_id, workspace_id, SHOWN_SECONDS)
    return [Minute(at, channel, _lane(lane), outcome, count) for at, channel, lane, outcome, count in rows]


async def held(database: Database, part: Part) -> list[HeldChannel]:
    """Return what is held in a part of the database, by channel."""
    rows = await database.fetch(_SQL["held"], part.tenant_id, part.workspace_id, COUNT_MAX)
    return [HeldChannel(*row) for row in rows]


async def dead(database: Database, part: Part) -> DeadCounts:
    """Return the dead letters of a part of the database."""
    return DeadCounts(*(await database.fetch(_SQL["dead"], part.tenant_id, part.workspace_id, COUNT_MAX))[0])


async def backlog(database: Database, channels: Sequence[str]) -> list[LaneBacklog]:
    """Return what is due in each lane of these channels."""
    rows = await database.fetch(_SQL["backlog"], list(channels), COUNT_MAX)
    return [LaneBacklog(channel, _lane(lane), count, seconds) for channel, lane, count, seconds in rows]


async def replicas(database: Database) -> list[Replica]:
    """Return the dispatchers, the newest last."""
    rows = await database.fetch(_SQL["replicas"])
    return [msgspec.convert(dict(row) | {"epoch": str(row["epoch"])}, Replica) for row in rows]


def _lane(number: int) -> str:
    return Lane(number).name.lower()
