"""Models of webhook endpoints: requests and answers."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from dispatcher.features.webhooks.rules import (
    ENDPOINTS_MAX,
    EVENTS_MAX,
    OVERLAP_SECONDS_MAX,
    URL_CHARACTERS_MAX,
    EventType,
    Wildcard,
)
from dispatcher.http.models import BEGUN, Asked, Cursor, Limit, LongCursor, Reason, ShortText, page_model

Name = Annotated[
    str,
    Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$", max_length=100, description="The name of the endpoint."),
]
Url = Annotated[
    str,
    # Checked by the handler, which knows the configuration.
    Meta(
        description="An https:// URL at a public address.",
        extra_json_schema={"minLength": 1, "maxLength": URL_CHARACTERS_MAX},
    ),
]
EventPatterns = Annotated[
    list[EventType | Wildcard],
    Meta(min_length=1, max_length=EVENTS_MAX, description="Types of events; delivery.* is all of that kind."),
]


class NewWebhook(Asked, frozen=True, kw_only=True):
    """A new endpoint for events."""

    name: Name
    url: Url
    events: EventPatterns
    enabled: bool = True
    reason: Reason


class ChangedWebhook(Asked, frozen=True, kw_only=True):
    """The new settings of an endpoint."""

    url: Url
    events: EventPatterns
    enabled: bool
    reason: Reason


class RotateWebhook(Asked, frozen=True, kw_only=True):
    """A request for another secret."""

    overlap_seconds: Annotated[
        float, Meta(ge=0, le=OVERLAP_SECONDS_MAX, description="For how long the old secret signs, too.")
    ] = 86_400.0
    reason: Reason


class DeleteWebhook(Asked, frozen=True):
    """The reason of a deletion."""

    reason: Reason = "over HTTP"


class WebhookQuery(Asked, frozen=True):
    """A page of endpoints."""

    after: Annotated[ShortText | None, Meta(description="Only endpoints with names after this one.")] = None
    cursor: LongCursor | None = None
    limit: Limit = ENDPOINTS_MAX


class WebhookLogQuery(Asked, frozen=True):
    """A page of actions on endpoints."""

    cursor: Cursor | None = None
    limit: Limit = 50


class Webhook(Struct, frozen=True, kw_only=True):
    """An endpoint. Its secret is shown only when it is created or rotated."""

    id: Annotated[int, Meta(description="The id in the options of its deliveries.")]
    name: str
    url: str
    events: list[str]
    enabled: bool
    created_at: datetime
    old_secret_until: Annotated[datetime | None, Meta(description="Until then the old secret signs, too.")]


Webhooks = page_model("Webhooks", "webhooks", Webhook, "A page of endpoints, by name.")


class WebhookSecret(Struct, frozen=True):
    """The secret that signs from now on, shown only once."""

    name: str
    secret: str


class WebhookChanged(Struct, frozen=True):
    """The result of a change."""

    name: str
    answer: Literal["changed", "same", "deleted"]


class WebhookAction(Struct, frozen=True, kw_only=True):
    """An action on an endpoint."""

    id: int
    name: str
    at: datetime
    actor: str
    action: str
    reason: str


WebhookActions = page_model("WebhookActions", "actions", WebhookAction, "A page of actions, the newest first.")


WEBHOOK = Webhook(
    id=5,
    name="crm",
    url="https://crm.example.org/hooks",
    events=["delivery.*", "run.failed"],
    enabled=True,
    created_at=BEGUN,
    old_secret_until=None,
)
WEBHOOKS = Webhooks([WEBHOOK], next_cursor=None)
WEBHOOK_SECRET = WebhookSecret("crm", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")
WEBHOOK_CHANGED = WebhookChanged("crm", "changed")
_ACTION = WebhookAction(
    id=9, name="crm", at=BEGUN, actor="key ann", action="create", reason="the CRM shows what was sent"
)
WEBHOOK_ACTIONS = WebhookActions([_ACTION], next_cursor=None)
