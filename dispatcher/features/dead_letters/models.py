"""Models of dead letters: requests and answers."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from dispatcher.http.bulk import AtOnce
from dispatcher.http.cursors import ID_MAX
from dispatcher.http.models import BEGUN, ENDED, Asked, Before, Cursor, Limit, Reason, ShortText, Text, page_model

Kind = Literal["run", "delivery", "job"]
Verb = Literal["replay", "discard"]
# In the order of the list.
KINDS: tuple[Kind, ...] = ("run", "delivery", "job")
VERBS: tuple[Verb, ...] = ("replay", "discard")
MANY = {"run": "runs", "delivery": "deliveries", "job": "jobs"}
# A job has up to 1,000 deliveries, and a request is one transaction: some seconds.
JOBS_AT_ONCE = 10


class DeadLetterFilter(Asked, frozen=True, kw_only=True):
    """A filter of dead letters: all of its fields must match."""

    name: Annotated[
        ShortText | None, Meta(description="Its workflow (run), template (delivery) or campaign (job).")
    ] = None
    channel: Text | None = None
    error: Annotated[Text | None, Meta(description="A text in its error.")] = None
    since: Annotated[datetime, Meta(description="Failed then or later.", tz=True)] | None = None
    until: Annotated[datetime, Meta(description="Failed before.", tz=True)] | None = None


class DeadLetterQuery(DeadLetterFilter, frozen=True, kw_only=True):
    """A page of the dead letters that match a filter."""

    before: Before = ID_MAX
    cursor: Cursor | None = None
    limit: Limit = 50


class SweepDeadLetters(DeadLetterFilter, frozen=True, kw_only=True):
    """An action on all dead letters that match a filter."""

    reason: Reason
    cursor: Cursor | None = None
    limit: AtOnce = 500


class DeadLetter(Struct, frozen=True, kw_only=True):
    """A run, a delivery, or a job of a campaign that has failed for good, until it is replayed or discarded."""

    kind: Kind
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


DeadLetters = page_model("DeadLetters", "dead_letters", DeadLetter, "A page of dead letters, the newest first.")


class DeadLetterGroup(Struct, frozen=True, kw_only=True):
    """Dead letters with the same error."""

    kind: Kind
    name: Annotated[str | None, Meta(description="Their workflow (run) or campaign (job).")]
    channel: str | None
    error: Annotated[str, Meta(description="Its first 255 characters.")]
    letters: int
    oldest: datetime
    newest: datetime


class DeadLetterGroups(Struct, frozen=True, kw_only=True):
    """The largest groups of dead letters."""

    groups: list[DeadLetterGroup]
    counted: Annotated[int, Meta(description="How many were looked at, the newest first.")]
    is_all: Annotated[bool, Meta(description="Whether that is all of them.")]


class DeadLetterActed(Struct, frozen=True):
    """The outcome for a dead letter."""

    kind: Kind
    id: int
    answer: str
    message: str


_DEAD_LETTER = DeadLetter(
    kind="delivery",
    id=19,
    tenant_id="default",
    workspace_id="default",
    name=None,
    node=None,
    channel="sms",
    recipient="+4917012345",
    idempotency_key="order-19:shipped",
    error="exhausted",
    created_at=BEGUN,
    failed_at=ENDED,
    retries=0,
)
DEAD_LETTERS = DeadLetters([_DEAD_LETTER], next_cursor=None)
_GROUP = DeadLetterGroup(
    kind="delivery", name=None, channel="sms", error="exhausted", letters=12, oldest=BEGUN, newest=ENDED
)
DEAD_LETTER_GROUPS = DeadLetterGroups(groups=[_GROUP], counted=12, is_all=True)
DEAD_LETTER_ACTED = DeadLetterActed("delivery", 19, "reopened", "delivery 19 will be sent again")
