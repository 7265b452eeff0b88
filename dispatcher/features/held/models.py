"""Models of held deliveries: requests and answers."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from dispatcher.http.bulk import AtOnce
from dispatcher.http.models import BEGUN, ENDED, Asked, Cursor, Limit, Reason, Text, page_model

SettleAs = Literal["sent", "failed", "requeue"]


ErrorPart = Annotated[Text, Meta(description="A text in its error.")]


class HeldFilter(Asked, frozen=True, kw_only=True):
    """A filter of held deliveries."""

    channel: Text | None = None
    error: ErrorPart | None = None


class HeldQuery(HeldFilter, frozen=True, kw_only=True):
    """A page of held deliveries."""

    cursor: Cursor | None = None
    limit: Limit = 50


class Settle(Asked, frozen=True):
    """The outcome of a held delivery as an operator has found it, or that it is sent again."""

    settle_as: SettleAs
    reason: Reason
    provider_message_id: Annotated[Text | None, Meta(description="The id of the message at its provider.")] = None


class SweepHeld(HeldFilter, frozen=True, kw_only=True):
    """A filter of held deliveries, and their outcome, or that they are sent again."""

    settle_as: SettleAs
    reason: Reason
    until: Annotated[datetime, Meta(description="Held before.", tz=True)] | None = None
    cursor: Cursor | None = None
    limit: AtOnce = 500


class HeldDelivery(Struct, frozen=True, kw_only=True):
    """A delivery whose call was begun, and whose outcome is unknown."""

    id: int
    idempotency_key: str
    channel: str
    recipient: str
    attempt: int
    held_at: datetime
    settle_after: Annotated[datetime | None, Meta(description="Until then a call of its dead owner may go on.")]
    error: str | None
    tenant_id: str
    workspace_id: str


HeldDeliveries = page_model(
    "HeldDeliveries", "held", HeldDelivery, "A page of held deliveries, the longest held first."
)


class HeldGroup(Struct, frozen=True, kw_only=True):
    """Held deliveries of one channel with the same error."""

    channel: str
    error: Annotated[str, Meta(description="Its first 255 characters.")]
    deliveries: int
    oldest: datetime
    newest: datetime


class HeldGroups(Struct, frozen=True, kw_only=True):
    """The largest groups of held deliveries."""

    groups: list[HeldGroup]
    counted: Annotated[int, Meta(description="How many were looked at, the longest held first.")]
    is_all: Annotated[bool, Meta(description="Whether that is all of them.")]


class HeldState(Struct, frozen=True, kw_only=True):
    """The state of a delivery, when it can be settled, and its last settlement."""

    id: int
    life: str
    held_at: datetime | None
    settle_after: datetime | None
    error: str | None
    wait_seconds: float | None
    actor: str | None
    action: str | None
    at: datetime | None
    reason: str | None


_HELD = HeldDelivery(
    id=18,
    tenant_id="default",
    workspace_id="default",
    idempotency_key="order-18:shipped",
    channel="sms",
    recipient="+4917012345",
    attempt=1,
    held_at=BEGUN,
    settle_after=ENDED,
    error="no answer",
)
HELD_DELIVERIES = HeldDeliveries([_HELD], next_cursor=None)
_GROUP = HeldGroup(channel="sms", error="no answer", deliveries=12, oldest=BEGUN, newest=ENDED)
HELD_GROUPS = HeldGroups(groups=[_GROUP], counted=12, is_all=True)
HELD_STATE = HeldState(
    id=18,
    life="held",
    held_at=BEGUN,
    settle_after=ENDED,
    error="no answer",
    wait_seconds=0.0,
    actor=None,
    action=None,
    at=None,
    reason=None,
)
