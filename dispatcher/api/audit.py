"""Audit over HTTP: what was done by whom in a workspace, whatever it was done to, as one list."""

from datetime import UTC, datetime
from typing import Annotated, Any

from msgspec import Meta, Struct

from dispatcher.api.cursors import behind, cursor, microseconds, moment
from dispatcher.api.endpoints import Call, Done, Endpoint
from dispatcher.api.listing import Row, page
from dispatcher.api.models import Asked, Cursor, Limit
from dispatcher.domain.roles import Right
from dispatcher.store import audit as store
from dispatcher.store.audit import Filter, Kind, Place

NOUN = "audit"
# The longest that is written here: a key's name, its tenant and its workspace, each of 100, and what stands between.
ACTOR_CHARACTERS_MAX = 309
_BY_WHOM = (
    "By whom: `key NAME`, or as the command line was told. Operators from elsewhere: `key NAME of TENANT/WORKSPACE`."
)

Actor = Annotated[str, Meta(min_length=1, max_length=ACTOR_CHARACTERS_MAX)]


class AuditQuery(Asked, frozen=True):
    """Which actions."""

    kind: Annotated[Kind | None, Meta(description="What it was done to.")] = None
    actor: Annotated[Actor | None, Meta(description=_BY_WHOM)] = None
    since: Annotated[datetime, Meta(description="Done then or later.", tz=True)] | None = None
    until: Annotated[datetime, Meta(description="Done before.", tz=True)] | None = None
    cursor: Cursor | None = None
    limit: Limit = 50


class AuditEntry(Struct, frozen=True, kw_only=True):
    """One thing that somebody did."""

    at: datetime
    kind: str
    subject: Annotated[str, Meta(description="The number of a delivery or run, an address, or a name.")]
    action: str
    actor: str
    reason: Annotated[str | None, Meta(description="Null where none is asked for.")]
    details: Annotated[dict[str, Any], Meta(description="What else is known: version, role, status before …")]


class Audit(Struct, frozen=True):
    """A page, the newest first."""

    entries: list[AuditEntry]
    next_cursor: str | None


EXAMPLES: tuple[Struct, ...] = (
    Audit(
        [
            AuditEntry(
                at=datetime(2030, 1, 31, 8, 0, 0, tzinfo=UTC),
                kind="delivery",
                subject="17",
                action="cancel",
                actor="key ann",
                reason="the order is in doubt",
                details={"status_before": "queued"},
            )
        ],
        next_cursor=None,
    ),
)


async def list_(call: Call) -> Done:
    """The newest."""
    asked: AuditQuery = call.query
    meant = Filter(kind=asked.kind, actor=asked.actor, since=asked.since, until=asked.until)
    at = None
    if asked.cursor is not None:
        since, rank, *last = behind(NOUN, asked.cursor, 4)
        at = Place(moment(since), min(rank, 2**31 - 1), *last)
    rows = await store.listed(call.database, call.workspace, meant, at, asked.limit + 1)
    return Done(Audit(*page(rows, asked.limit, AuditEntry, _end)))


def _end(row: Row) -> str:
    return cursor(NOUN, microseconds(row["at"]), row["rank"], row["id"], row["number"])


ENDPOINTS = (
    Endpoint(
        operation="listAudit",
        method="GET",
        path="/audit",
        right=Right.AUDIT,
        summary="List what was done by whom, the newest first",
        description="To deliveries, runs, workflows, templates, schedules and keys of the workspace; to suppressions "
        "and topics of its tenant, and what was paused in it or everywhere.",
        query=AuditQuery,
        answer=Audit,
        handle=list_,
    ),
)
