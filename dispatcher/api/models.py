"""Models: what requests say and what answers say, as the program and its OpenAPI document know them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from dispatcher.api.cursors import ID_MAX
from dispatcher.domain.life import RECIPIENT_CHARACTERS_MAX
from dispatcher.errors import Fault

Text = Annotated[str, Meta(min_length=1, max_length=255)]
ShortText = Annotated[str, Meta(min_length=1, max_length=100)]
Recipient = Annotated[str, Meta(max_length=RECIPIENT_CHARACTERS_MAX)]
Limit = Annotated[int, Meta(ge=1, le=500, description="How many.")]
Cursor = Annotated[str, Meta(max_length=200, description="next_cursor of the answer before.")]
# Of a list in the order of texts, which stand in it.
LongCursor = Annotated[str, Meta(max_length=4_500, description="next_cursor of the answer before.")]
# Something to see. What is a blank in one of the two languages of patterns, Python's and ECMA's, is one.
SEEN = r"[^\s\u001c-\u001f\u0085\ufeff]"
Reason = Annotated[str, Meta(min_length=1, max_length=1_000, pattern=SEEN, description="Why; it is kept.")]
Moment = Annotated[datetime, Meta(tz=True, description="A time with its zone, in RFC 3339.")]
Json = dict[str, Any]
DeliveryLife = Literal[
    "pending", "claimed", "sending", "held", "parked", "queued", "sent", "called", "posted", "failed", "skipped"
]
# What only operators may name: all others have the workspace of their key.
Tenant = Annotated[ShortText, Meta(description="Of another tenant: for operators only.")]
InWorkspace = Annotated[ShortText, Meta(description="Of another workspace: for operators only.")]
BATCH_MAX = 5_000
LINES_MAX = 1_000
Before = Annotated[int, Meta(ge=1, le=ID_MAX, description="Only those with a smaller id.")]


class Asked(Struct, frozen=True, forbid_unknown_fields=True):
    """What a request says: nothing that is not known."""


# Deliveries


class NewDelivery(Asked, frozen=True, kw_only=True):
    """A delivery that is to be sent. It says what it says by itself (template or body), or names a stored template."""

    idempotency_key: Annotated[str, Meta(description="The same key is not sent again.", min_length=1, max_length=255)]
    channel: Annotated[str, Meta(description="By which channel.", examples=["email"])]
    recipient: Annotated[Recipient | None, Meta(description="To whom; a social post has nobody.")] = None
    to: Annotated[Recipient | None, Meta(description="Another name for recipient.")] = None
    template: Annotated[Json | None, Meta(description="Its parts, in Liquid.")] = None
    body: Annotated[str | None, Meta(description="The part called body.")] = None
    template_name: Annotated[str | None, Meta(description="A stored template.")] = None
    locale: Annotated[str | None, Meta(description="In which language, with template_name.")] = None
    variables: Annotated[Json | None, Meta(description="What its template reads.")] = None
    options: Annotated[Json | None, Meta(description="What its provider is told.")] = None
    lane: Literal["transactional", "normal", "bulk"] | None = None
    scheduled_for: Annotated[str | None, Meta(description="When; RFC 3339. At once without it.")] = None
    expires_at: Annotated[str | None, Meta(description="After this it is not sent any more.")] = None
    max_attempts: Annotated[int, Meta(ge=1, le=100)] | None = None
    topic: Annotated[str | None, Meta(description="What it is about, where one can unsubscribe from that.")] = None


class NewDeliveries(Asked, frozen=True):
    """Many at once: all are written, or none."""

    deliveries: Annotated[list[NewDelivery], Meta(min_length=1, max_length=BATCH_MAX)]


class Written(Struct, frozen=True):
    """The delivery that holds a key; a duplicate is one that was there before."""

    id: int
    idempotency_key: str
    duplicate: bool


class WrittenMany(Struct, frozen=True):
    """In the order in which they were asked for."""

    deliveries: list[Written]


class NewLines(Asked, frozen=True):
    """Many at once, each for itself: one delivery a line, as a JSON object in a text."""

    lines: Annotated[list[Annotated[str, Meta(max_length=1024 * 1024)]], Meta(min_length=1, max_length=LINES_MAX)]


class SentLine(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a line: the delivery that holds its key, or everything that is wrong with it."""

    id: int | None = None
    idempotency_key: str | None = None
    duplicate: bool = False
    faults: Sequence[Fault] = ()


class SentLines(Struct, frozen=True):
    """In the order of the lines."""

    lines: list[SentLine]


class DeliveryQuery(Asked, frozen=True):
    """Which deliveries."""

    channel: Text | None = None
    life: DeliveryLife | None = None
    idempotency_key: Text | None = None
    before: Before = ID_MAX
    cursor: Cursor | None = None
    limit: Limit = 50


class Delivery(Struct, frozen=True, kw_only=True):
    """A delivery in short."""

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
    max_attempts: int
    run_at: datetime | None
    finished_at: datetime | None
    provider_message_id: str | None
    error: str | None


class Deliveries(Struct, frozen=True):
    """A page, the newest first."""

    deliveries: list[Delivery]
    next_cursor: str | None


class Attempt(Struct, frozen=True, kw_only=True):
    """An attempt that did not end it well."""

    attempt: int
    outcome: str
    ended_at: datetime
    next_at: datetime | None
    reason: str | None


class Action(Struct, frozen=True, kw_only=True):
    """What somebody did."""

    at: datetime
    actor: str
    action: str
    status_before: str
    reason: str


class Evidence(Struct, frozen=True, kw_only=True):
    """What a provider answered too late."""

    seen_at: datetime
    verdict: str
    resolved: bool
    provider_message_id: str | None
    reason: str | None


class Receipt(Struct, frozen=True, kw_only=True):
    """What its provider said about it later on."""

    seen_at: datetime
    said_at: datetime
    provider: str
    kind: str
    provider_message_id: str | None
    reason: str


class Captured(Struct, frozen=True, kw_only=True):
    """What the capture provider was given."""

    captured_at: datetime
    attempt: int
    recipient: str
    parts: Any
    fault: str | None


class WholeDelivery(Delivery, frozen=True, kw_only=True):
    """A delivery with what it says and all that became of it."""

    template_name: str | None
    template_version: int | None
    locale: str | None
    template: Any
    variables: Any
    options: Any
    topic: str | None
    run_id: int | None
    job_id: int | None
    scheduled_for: datetime
    expires_at: datetime | None
    created_at: datetime
    receipt: str | None
    attempts: list[Attempt]
    evidence: list[Evidence]
    receipts: list[Receipt]
    actions: list[Action]
    captured: list[Captured]


class Mail(Struct, frozen=True):
    """A mail as a server would get it, in base64."""

    id: int
    raw: bytes


class Why(Asked, frozen=True):
    """Why it is done."""

    reason: Reason


class Move(Asked, frozen=True):
    """When it is sent instead, and why."""

    run_at: Moment
    reason: Reason


class CancelByKey(Asked, frozen=True):
    """Which delivery is not to be sent, and why."""

    idempotency_key: Text
    reason: Reason


class MoveByKey(Asked, frozen=True):
    """Which delivery is sent at another time, and why."""

    idempotency_key: Text
    run_at: Moment
    reason: Reason


class Acted(Struct, frozen=True):
    """What became of it."""

    id: int
    answer: str
    message: str


class HeldQuery(Asked, frozen=True):
    """Which held deliveries."""

    channel: Text | None = None
    cursor: Cursor | None = None
    limit: Limit = 50


class HeldDelivery(Struct, frozen=True, kw_only=True):
    """A delivery whose call was begun, and of which nobody knows how it ended."""

    id: int
    idempotency_key: str
    channel: str
    recipient: str
    attempt: int
    held_at: datetime
    settle_after: Annotated[datetime | None, Meta(description="Before, a call of its dead owner may go on.")]
    error: str | None
    tenant_id: str
    workspace_id: str


class HeldDeliveries(Struct, frozen=True):
    """A page, the longest held first."""

    held: list[HeldDelivery]
    next_cursor: str | None


class Standing(Struct, frozen=True, kw_only=True):
    """Where a delivery stands, from when it can be settled, and who settled it last, if anybody did."""

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


class Settle(Asked, frozen=True):
    """What became of it, as somebody has found out, or that it is sent again."""

    settle_as: Literal["sent", "failed", "requeue"]
    reason: Reason
    provider_message_id: Annotated[Text | None, Meta(description="What its provider calls it.")] = None


# Dead letters


class LetterQuery(Asked, frozen=True):
    """Which dead letters. A name is a run's workflow, or a delivery's template."""

    name: ShortText | None = None
    channel: Text | None = None
    error: Annotated[Text | None, Meta(description="What stands in its error.")] = None
    since: Annotated[datetime, Meta(description="Failed then or later.", tz=True)] | None = None
    until: Annotated[datetime, Meta(description="Failed before.", tz=True)] | None = None
    before: Before = ID_MAX
    cursor: Cursor | None = None
    limit: Limit = 50


class Letter(Struct, frozen=True, kw_only=True):
    """A run or a delivery that has failed for good, until somebody replays or discards it."""

    kind: Literal["run", "delivery"]
    id: int
    tenant_id: str
    workspace_id: str
    name: str | None
    node: str | None
    channel: str | None
    recipient: str | None
    idempotency_key: str | None
    error: str | None
    created_at: datetime
    failed_at: datetime
    retries: int


class Letters(Struct, frozen=True):
    """A page, the newest first."""

    dead_letters: list[Letter]
    next_cursor: str | None


class LetterActed(Struct, frozen=True):
    """What became of one."""

    kind: Literal["run", "delivery"]
    id: int
    answer: str
    message: str


# Keys


class OwnKey(Struct, frozen=True):
    """What a key is called, what it is good for, and which workspace it opens."""

    name: str
    role: str
    tenant_id: str
    workspace_id: str
