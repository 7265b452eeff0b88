"""Audit: what requests and answers say about who did what."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from dispatcher.http.models import Asked, Cursor, Limit

# The longest that is written here: a key's name, its tenant and its workspace, each of 100, and what stands between.
ACTOR_CHARACTERS_MAX = 309
_BY_WHOM = (
    "By whom: `key NAME`, or as the command line was told. Operators from elsewhere: `key NAME of TENANT/WORKSPACE`."
)

Kind = Literal["delivery", "run", "workflow", "template", "schedule", "suppression", "pause", "key"]
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


_ENTRY = AuditEntry(
    at=datetime(2030, 1, 31, 8, 0, 0, tzinfo=UTC),
    kind="delivery",
    subject="17",
    action="cancel",
    actor="key ann",
    reason="the order is in doubt",
    details={"status_before": "queued"},
)
AUDIT = Audit([_ENTRY], next_cursor=None)
