"""Models of the audit: requests and answers."""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from dispatcher.http.models import BEGUN, Asked, Cursor, Limit, page_model

# The longest actor: the name, tenant and workspace of a key, each of 100, and the words between them.
ACTOR_CHARACTERS_MAX = 309
_ACTOR = "`key NAME`, or --actor of a command; operators of other workspaces: `key NAME of TENANT/WORKSPACE`."

Kind = Literal[
    "delivery",
    "run",
    "workflow",
    "template",
    "schedule",
    "suppression",
    "pause",
    "key",
    "campaign",
    "campaign_run",
    "rule",
    "sequence",
    "quiet_hours",
    "cap",
]
Actor = Annotated[str, Meta(min_length=1, max_length=ACTOR_CHARACTERS_MAX)]


class AuditQuery(Asked, frozen=True):
    """A page of the actions that match a filter."""

    kind: Annotated[Kind | None, Meta(description="The kind of its subject.")] = None
    actor: Annotated[Actor | None, Meta(description=_ACTOR)] = None
    since: Annotated[datetime, Meta(description="At this time or later.", tz=True)] | None = None
    until: Annotated[datetime, Meta(description="Before this time.", tz=True)] | None = None
    cursor: Cursor | None = None
    limit: Limit = 50


class AuditEntry(Struct, frozen=True, kw_only=True):
    """An action: its subject, actor and reason."""

    at: datetime
    kind: str
    subject: Annotated[str, Meta(description="The number of a delivery or run, an address, or a name.")]
    action: str
    actor: str
    reason: Annotated[str | None, Meta(description="Null for actions without a reason.")]
    details: Annotated[dict[str, Any], Meta(description="More facts: version, role, status before …")]


Audit = page_model("Audit", "entries", AuditEntry, "A page of actions, the newest first.")


_ENTRY = AuditEntry(
    at=BEGUN,
    kind="delivery",
    subject="17",
    action="cancel",
    actor="key ann",
    reason="the order is in doubt",
    details={"status_before": "queued"},
)
AUDIT = Audit([_ENTRY], next_cursor=None)
