"""Searching deliveries: a bounded part of them is looked at, by an index where there is one, else the newest first."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.features.deliveries.models import LOOKED_MAX, DeliveryQuery
from dispatcher.http.endpoints import Part

_SQL = statements(__name__)

# Ids are given out in about the order of time: a transaction that was open for longer may be missed.
SLACK = timedelta(minutes=10)
# Looked through before all others.
PORTION = 500


async def found(
    database: Database, part: Part, asked: DeliveryQuery, below: int
) -> tuple[Sequence[dict[str, Any]], int | None]:
    """Return the matching deliveries below an id, and the id below which the search goes on; None at its end."""
    matching, end = await ids(database, part, asked, below)
    return [dict(row) for row in await database.fetch(_SQL["rows"], matching)], end


async def ids(database: Database, part: Part, asked: DeliveryQuery, below: int) -> tuple[Sequence[int], int | None]:
    """Return the ids of the matching deliveries below an id, and the id below which the search goes on."""
    few = await _candidates(database, part, asked, below)
    first = await _at(database, asked.since, -SLACK) if asked.since else 0
    is_all = len(few) < LOOKED_MAX or few[-1] < first
    matching = await _matching(database, [one for one in few if one >= first], asked)
    if len(matching) > asked.limit:
        return matching[: asked.limit], matching[asked.limit - 1]
    return matching, None if is_all else few[-1]


async def _matching(database: Database, few: Sequence[int], asked: DeliveryQuery) -> list[int]:
    """Return the first that match, one more than asked for: most filters find enough among the newest."""
    found: list[int] = []
    for portion in (few[:PORTION], few[PORTION:]):
        wanted = asked.limit + 1 - len(found)
        if portion and wanted > 0:
            conditions = asked.life, asked.channel, asked.template_name, asked.campaign, asked.error
            times = asked.since, asked.until
            rows = await database.fetch(_SQL["matching"], portion, wanted, *conditions, *times)
            found += [row["id"] for row in rows]
    return found


async def _candidates(database: Database, part: Part, asked: DeliveryQuery, below: int) -> list[int]:
    """Return the ids to look at, newest first."""
    last = min(below, await _at(database, asked.until, SLACK)) if asked.until else below
    window = last, LOOKED_MAX
    if asked.recipient is not None:
        place = part.tenant_id or "default", part.workspace_id or "default"
        rows = await database.fetch(_SQL["newest_to"], *window, *place, asked.recipient)
    elif asked.run_id is not None:
        rows = await database.fetch(_SQL["newest_of_run"], *window, part.tenant_id, part.workspace_id, asked.run_id)
    else:
        rows = await database.fetch(_SQL["newest"], *window, part.tenant_id, part.workspace_id)
    return [row["id"] for row in rows]


async def _at(database: Database, at: datetime, slack: timedelta) -> int:
    return int(await database.value(_SQL["at"], at + slack))
