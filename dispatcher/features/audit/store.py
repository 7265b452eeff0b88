"""Stored actions: what was done by whom, of all that is kept about it, as one list."""

from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct, structs

from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.features.audit.models import AuditQuery

_SQL = statements(__name__)

_ALWAYS = datetime.min.replace(tzinfo=UTC)
_ENDLESS = datetime.max.replace(tzinfo=UTC)
_details = msgspec.json.Decoder(dict[str, Any]).decode


class Place(Struct, frozen=True):
    """Where a page of the list ended."""

    at: datetime
    rank: int
    id: int
    number: int


async def listed(
    database: Database, here: Workspace, meant: AuditQuery, behind: Place | None, count: int
) -> list[dict[str, Any]]:
    """The newest behind a place."""
    # Nothing has this rank: what is at that very time is not before it.
    place = behind or Place(meant.until or _ENDLESS, 0, 0, 0)
    asked = meant.kind, meant.actor, meant.since or _ALWAYS, *structs.astuple(place), count
    rows = await database.fetch(_SQL["list"], here.tenant_id, here.workspace_id, *asked)
    return [dict(row) | {"details": _details(row["details"])} for row in rows]
