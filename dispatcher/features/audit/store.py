"""The audit in the database: the actions of all features as one list."""

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
    """The end of a page of the list."""

    at: datetime
    rank: int
    id: int
    number: int


async def listed(
    database: Database, workspace: Workspace, query: AuditQuery, behind: Place | None, count: int
) -> list[dict[str, Any]]:
    """Return the newest actions after a place."""
    # No action has rank 0: those at `until` itself are left out.
    place = behind or Place(query.until or _ENDLESS, 0, 0, 0)
    asked = query.kind, query.actor, query.since or _ALWAYS, *structs.astuple(place), count
    rows = await database.fetch(_SQL["list"], workspace.tenant_id, workspace.workspace_id, *asked)
    return [dict(row) | {"details": _details(row["details"])} for row in rows]
