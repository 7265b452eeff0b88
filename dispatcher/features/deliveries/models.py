"""Models of deliveries: requests and answers."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct, structs

from dispatcher.base.errors import Fault
from dispatcher.engine.rules.life import RECIPIENT_CHARACTERS_MAX
from dispatcher.http.bulk import AtOnce
from dispatcher.http.cursors import ID_MAX
from dispatcher.http.models import (
    BEGUN,
    ENDED,
    Asked,
    Before,
    Cursor,
    Json,
    Limit,
    Moment,
    Reason,
    Text,
    Why,
    page_model,
)

Recipient = Annotated[str, Meta(max_length=RECIPIENT_CHARACTERS_MAX)]
SweepAction = Literal["cancel", "move", "retry"]
DeliveryLife = Literal[
    "pending", "claimed", "sending", "held", "parked", "queued", "sent", "called", "posted", "failed", "skipped"
]
BATCH_MAX = 5_000
LINES_MAX = 1_000
# A search looks at no more with one request, so that it takes no longer where nothing matches.
LOOKED_MAX = 5_000
BRIEF = (
    "Look at 5,000 deliveries at most, as for any filter from recipient to until: a page may be short, or empty, and \
next_cursor goes on."
)


class NewDelivery(Asked, frozen=True, kw_only=True):
    """A delivery to send, with a template or body of its own, or the name of a stored template."""

    idempotency_key: Annotated[str, Meta(description="A key is sent once.", min_length=1, max_length=255)]
    channel: Annotated[str, Meta(description="The channel.", examples=["email"])]
    recipient: Annotated[Recipient | None, Meta(description="The address; a social post has none.")] = None
    to: Annotated[Recipient | None, Meta(description="Another name for recipient.")] = None
    template: Annotated[Json | None, Meta(description="The parts of the message, in Liquid.")] = None
    body: Annotated[str | None, Meta(description="The part called body.")] = None
    template_name: Annotated[str | None, Meta(description="The name of a stored template.")] = None
    locale: Annotated[str | None, Meta(description="With template_name: the language.")] = None
    variables: Annotated[Json | None, Meta(description="The variables of the template.")] = None
    options: Annotated[Json | None, Meta(description="Options for the provider.")] = None
    lane: Literal["transactional", "normal", "bulk"] | None = None
    scheduled_for: Annotated[str | None, Meta(description="The time to send it (RFC 3339); now without it.")] = None
    expires_at: Annotated[str | None, Meta(description="The time after which it is not sent.")] = None
    max_attempts: Annotated[int, Meta(ge=1, le=100)] | None = None
    topic: Annotated[str | None, Meta(description="The topic that recipients can unsubscribe from.")] = None


class NewDeliveries(Asked, frozen=True):
    """Many deliveries: all are written, or none."""

    deliveries: Annotated[list[NewDelivery], Meta(min_length=1, max_length=BATCH_MAX)]


_Waits = Annotated[str | None, Meta(description="Why it waits, as far as that is known.")]
_Bar = Annotated[str | None, Meta(description="Why it is not sent: its recipient is suppressed, for example.")]


class Written(Struct, frozen=True, kw_only=True):
    """The delivery that holds a key, and what will happen to it. A duplicate existed before."""

    id: int
    idempotency_key: str
    duplicate: bool
    life: str
    run_at: Annotated[datetime | None, Meta(description="When it is due.")]
    waits: _Waits
    bar: _Bar


class WrittenMany(Struct, frozen=True):
    """The deliveries in the order of the request."""

    deliveries: list[Written]


class NewLines(Asked, frozen=True):
    """Many independent deliveries: one JSON object in each line."""

    lines: Annotated[list[Annotated[str, Meta(max_length=1024 * 1024)]], Meta(min_length=1, max_length=LINES_MAX)]


class SentLine(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a line: the delivery that holds its key and what will happen to it, or its faults."""

    id: int | None = None
    idempotency_key: str | None = None
    duplicate: bool = False
    life: str | None = None
    run_at: datetime | None = None
    waits: _Waits = None
    bar: _Bar = None
    faults: Sequence[Fault] = ()


class SentLines(Struct, frozen=True):
    """The results in the order of the lines."""

    lines: list[SentLine]


class DeliveryFilter(Asked, frozen=True):
    """A filter of deliveries: all of its fields must match."""

    channel: Text | None = None
    life: DeliveryLife | None = None
    recipient: Annotated[Recipient | None, Meta(description="However its address is written.")] = None
    template_name: Text | None = None
    campaign: Text | None = None
    run_id: Annotated[int, Meta(ge=1, le=ID_MAX)] | None = None
    error: Annotated[Text | None, Meta(description="Words of its error.")] = None
    since: Annotated[Moment | None, Meta(description="Written then or later.")] = None
    until: Annotated[Moment | None, Meta(description="Written before.")] = None


class DeliveryQuery(DeliveryFilter, frozen=True):
    """A page of the deliveries that match a filter."""

    idempotency_key: Text | None = None
    before: Before = ID_MAX
    cursor: Cursor | None = None
    limit: Limit = 50
    brief: Annotated[bool, Meta(description=BRIEF)] = False

    @property
    def is_search(self) -> bool:
        """Whether it looks at so many deliveries at most."""
        more = self.recipient, self.template_name, self.campaign, self.run_id, self.error, self.since, self.until
        return self.idempotency_key is None and (self.brief or any(one is not None for one in more))


class SweepDeliveries(DeliveryFilter, frozen=True, kw_only=True):
    """An action on all deliveries that match a filter."""

    action: SweepAction
    reason: Reason
    run_at: Annotated[Moment | None, Meta(description="The new time, with move.")] = None
    cursor: Cursor | None = None
    limit: AtOnce = 500

    def query(self) -> DeliveryQuery:
        """Return its filter as the list takes it."""
        fields = {name: getattr(self, name) for name in DeliveryFilter.__struct_fields__}
        return DeliveryQuery(**fields, limit=self.limit, brief=True)


class Delivery(Struct, frozen=True, kw_only=True):
    """A delivery, without its content and trace."""

    id: int
    tenant_id: str
    workspace_id: str
    idempotency_key: str
    channel: str
    recipient: str
    lane: str
    life: str
    status: str
    attempt: int
    tries: Annotated[
        int, Meta(description="The attempts that count toward max_attempts: those since it was sent again.")
    ]
    max_attempts: int
    run_at: datetime | None
    finished_at: datetime | None
    provider_message_id: str | None
    error: str | None
    run_id: Annotated[int | None, Meta(description="Its run: of a campaign, if it has one; else of a workflow.")]
    job_id: Annotated[int | None, Meta(description="Its job of a run of a campaign.")]
    campaign: str | None
    waits: _Waits
    subject: Annotated[str | None, Meta(description="The subject or the first line of its message, rendered.")]


Deliveries = page_model("Deliveries", "deliveries", Delivery, "A page of deliveries, the newest first.")


class Attempt(Struct, frozen=True, kw_only=True):
    """An attempt that did not succeed."""

    attempt: int
    outcome: str
    provider: str | None
    ended_at: datetime
    next_at: datetime | None
    reason: str | None


class Action(Struct, frozen=True, kw_only=True):
    """An action of an operator."""

    at: datetime
    actor: str
    action: str
    status_before: str
    reason: str


class Evidence(Struct, frozen=True, kw_only=True):
    """A late answer of a provider."""

    seen_at: datetime
    verdict: str
    resolved: bool
    provider_message_id: str | None
    reason: str | None


class Receipt(Struct, frozen=True, kw_only=True):
    """A receipt of its provider."""

    seen_at: datetime
    said_at: datetime
    provider: str
    kind: str
    provider_message_id: str | None
    reason: str


class Captured(Struct, frozen=True, kw_only=True):
    """A message that the capture provider has taken."""

    captured_at: datetime
    attempt: int
    recipient: str
    parts: Raw
    fault: str | None


class WholeDelivery(Delivery, frozen=True, kw_only=True):
    """A delivery with its content and trace."""

    template_name: str | None
    template_version: int | None
    locale: str | None
    template: Raw
    variables: Raw
    options: Raw
    topic: str | None
    scheduled_for: datetime
    expires_at: datetime | None
    created_at: datetime
    provider: Annotated[str | None, Meta(description="The provider of its last attempt.")]
    data: Annotated[Raw, Meta(description="What its function answered; null without one.")]
    retry_of: Annotated[int | None, Meta(description="The delivery that it was written in place of.")]
    retried_by: Annotated[int | None, Meta(description="The delivery that was written in its place.")]
    claimed_at: Annotated[datetime | None, Meta(description="When a dispatcher took it; null once its attempt ended.")]
    marked: Annotated[bool | None, Meta(description="Whether its call may have begun since then.")]
    receipt: str | None
    attempts: list[Attempt]
    evidence: list[Evidence]
    receipts: list[Receipt]
    actions: list[Action]
    captured: list[Captured]


class ClaimedDelivery(WholeDelivery, frozen=True, kw_only=True):
    """A delivery with its claim, for local operators."""

    token: int | None
    owner: str | None


class Mail(Struct, frozen=True):
    """A mail in the form that a server would get, in base64."""

    id: int
    raw: bytes


class Move(Why, frozen=True):
    """The new time of a delivery."""

    run_at: Moment


class Repair(Why, frozen=True):
    """The variables that a delivery lacked, or other values of those that it had."""

    variables: Json


class CancelByKey(Why, frozen=True):
    """The key of the delivery to cancel."""

    idempotency_key: Text


class MoveByKey(Move, frozen=True):
    """The key of the delivery to move."""

    idempotency_key: Text


WRITTEN = Written(
    id=17,
    idempotency_key="order-17:shipped",
    duplicate=False,
    life="pending",
    run_at=BEGUN,
    waits="channel email is paused by ann: maintenance",
    bar=None,
)
_DELIVERY = Delivery(
    id=17,
    tenant_id="default",
    workspace_id="default",
    idempotency_key="order-17:shipped",
    channel="email",
    recipient="ann@example.org",
    lane="normal",
    life="sent",
    status="sent",
    attempt=2,
    tries=2,
    max_attempts=5,
    run_at=BEGUN,
    finished_at=ENDED,
    provider_message_id="m-4711",
    error=None,
    run_id=None,
    job_id=None,
    campaign=None,
    waits=None,
    subject="Order 17",
)
WHOLE_DELIVERY = WholeDelivery(
    **structs.asdict(_DELIVERY),
    template_name=None,
    template_version=None,
    locale=None,
    template=Raw(b'{"subject":"Order {{ id }}","text":"It is on its way."}'),
    variables=Raw(b'{"id":17}'),
    options=Raw(b"{}"),
    topic=None,
    scheduled_for=BEGUN,
    expires_at=None,
    created_at=BEGUN,
    provider="resend",
    data=Raw(b"null"),
    retry_of=None,
    retried_by=None,
    claimed_at=None,
    marked=None,
    receipt="delivered",
    attempts=[
        Attempt(
            attempt=1, outcome="retry", provider="relay (smtp)", ended_at=BEGUN, next_at=ENDED, reason="451 try again"
        )
    ],
    evidence=[Evidence(seen_at=ENDED, verdict="accepted", resolved=True, provider_message_id="m-4711", reason=None)],
    receipts=[
        Receipt(seen_at=ENDED, said_at=ENDED, provider="resend", kind="delivered", provider_message_id=None, reason="")
    ],
    actions=[Action(at=BEGUN, actor="key shop", action="move", status_before="queued", reason="in doubt")],
    captured=[
        Captured(
            captured_at=ENDED, attempt=2, recipient="ann@example.org", parts=Raw('{"text":"…"}'.encode()), fault=None
        )
    ],
)
WRITTEN_MANY = WrittenMany([WRITTEN])
DELIVERIES = Deliveries([_DELIVERY], next_cursor="ZGVsaXZlcmllcyAxNw")
MAIL = Mail(17, b"Subject: Order 17\r\n\r\nIt is on its way.\r\n")
SENT_LINES = SentLines(
    [
        SentLine(id=17, idempotency_key="order-17:shipped", life="pending", run_at=BEGUN),
        SentLine(faults=[Fault("channel", 'unknown channel "fax"; known are: email, sms')]),
    ]
)
