"""Models of the requests and answers about enrolments, with the names that SE-01 and SE-03 give them."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, structs

from dispatcher.features.sequences.models import ContactId
from dispatcher.http.cursors import ID_MAX
from dispatcher.http.models import VERSION_MAX, Asked, Cursor, Json, Limit, Reason, ShortText, Text

# One statement has its time; the command asks again until there is nothing left.
CHANGED_MAX = 1_000
EnrolmentStatus = Literal["active", "paused", "completed", "cancelled"]


class Enrol(Asked, frozen=True, rename="camel"):
    """Whom to enrol."""

    contact_id: ContactId


class Enrolled(Struct, frozen=True, kw_only=True, rename="camel"):
    """The enrolment of a contact; `duplicate` if it was in the sequence before."""

    id: int
    status: str
    version: int
    next_step_at: datetime | None
    duplicate: bool


class EnrolledAudience(Asked, frozen=True, kw_only=True, rename="camel"):
    """Contacts: all, or by filters, which all hold; these by id or key as well; and never those that are excluded."""

    all: bool | None = None
    company: Text | None = None
    status: Text | None = None
    tag: Text | None = None
    tags: list[Text] | None = None
    attributes: Json | None = None
    contact_ids: list[ContactId] | None = None
    exclude: list[ContactId] | None = None

    def as_json(self) -> dict[str, Any]:
        """Return it as the database has it."""
        tags = [*(self.tags or []), *([self.tag] if self.tag is not None else [])]
        said = {
            "all": self.all or None,
            "company": self.company,
            "status": self.status,
            "tags": tags or None,
            "attributes": self.attributes,
            "contacts": self.contact_ids or None,
            "exclude": self.exclude or None,
        }
        return {name: value for name, value in said.items() if value is not None}


class BatchCounts(Struct, frozen=True, rename="camel"):
    """How many were enrolled, how many not, and why."""

    enrolled_count: int
    skipped_count: int
    reasons: list[Json]


class BatchEnrolled(Struct, frozen=True):
    """The result of a batch."""

    success: bool
    data: BatchCounts


class ChangeEnrolments(Asked, frozen=True, kw_only=True):
    """What to do with which enrolments: those of an audience, or all."""

    action: Literal["pause", "resume", "cancel"]
    audience: EnrolledAudience | None = None
    reason: Reason


class ChangedEnrolments(Struct, frozen=True):
    """How many were changed; where there may be more, ask again."""

    changed: int
    more: bool


class EnrolmentQuery(Asked, frozen=True):
    """A filter and page of enrolments."""

    status: EnrolmentStatus | None = None
    contact: Annotated[Text | None, Meta(description="Of one contact, by its key.")] = None
    cursor: Cursor | None = None
    limit: Limit = 50


class Enrolment(Struct, frozen=True, kw_only=True, rename="camel"):
    """An enrolment: where it stands, and when its next step is due."""

    id: int
    contact_id: int
    contact: Annotated[str | None, Meta(description="Its key; null: it was deleted.")]
    version: int
    status: str
    current_step_index: int
    next_step_at: datetime | None
    reason: str | None
    enrolled_at: datetime
    finished_at: datetime | None


class EnrolmentPage(Struct, frozen=True):
    """A page, the newest first."""

    enrolments: list[Enrolment]
    next_cursor: str | None


class StepLog(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a step has sent: pending, completed, failed or skipped."""

    id: Annotated[int, Meta(description="Of the delivery.")]
    step_id: int
    channel: str
    content_snapshot: str
    status: str
    sent_at: datetime | None
    error: str | None
    held: bool
    created_at: datetime


class WholeEnrolment(Enrolment, frozen=True, kw_only=True, rename="camel"):
    """An enrolment with its logs."""

    sequence: str
    logs: list[StepLog]


class EnrolmentMove(Asked, frozen=True, kw_only=True):
    """Enrolments of which version to move to which."""

    from_version: Annotated[int, Meta(ge=1, le=VERSION_MAX)]
    to_version: Annotated[int, Meta(ge=1, le=VERSION_MAX)]
    after: Annotated[int, Meta(ge=0, le=ID_MAX, description="Only enrolments with a larger id.")] = 0


class MoveGroup(Struct, frozen=True, kw_only=True, rename="camel"):
    """Enrolments that wait for one step and would wait for another; null: none is left, and they are completed."""

    step: int | None
    next_step: int | None
    is_sending: Annotated[bool, Meta(description="They have a message on its way, and are left alone.")]
    enrollments: int


class MovePreview(Struct, frozen=True):
    """What a move would do."""

    groups: list[MoveGroup]
    more: Annotated[bool, Meta(description="Only the first 10,000 were looked at.")]


class Moved(Struct, frozen=True, kw_only=True):
    """How many were moved, and how many are completed, since no step is left for them; and from where to go on."""

    seen: int
    moved: int
    completed: int
    last: Annotated[int, Meta(description="The last id; for `after`.")]
    more: bool


class ContactEvent(Asked, frozen=True, kw_only=True, rename="camel"):
    """An event of a contact."""

    event: ShortText
    contact_id: ContactId


class ContactEventDone(Struct, frozen=True):
    """How many enrolments it has ended."""

    cancelled: int


_AT = datetime(2030, 1, 31, 8, 0, 0, tzinfo=UTC)
ENROLLED = Enrolled(id=1017, status="active", version=2, next_step_at=_AT, duplicate=False)
BATCH = BatchEnrolled(True, BatchCounts(120, 3, [{"reason": "already enrolled", "count": 3}]))
CHANGED = ChangedEnrolments(12, more=False)
_ENROLMENT = Enrolment(
    id=1017,
    contact_id=7,
    contact="customer-17",
    version=2,
    status="active",
    current_step_index=1,
    next_step_at=_AT,
    reason=None,
    enrolled_at=_AT,
    finished_at=None,
)
ENROLMENTS = EnrolmentPage([_ENROLMENT], next_cursor=None)
_LOG = StepLog(
    id=99,
    step_id=17,
    channel="email",
    content_snapshot="Hello",
    status="completed",
    sent_at=_AT,
    error=None,
    held=False,
    created_at=_AT,
)
WHOLE_ENROLMENT = WholeEnrolment(**structs.asdict(_ENROLMENT), sequence="onboarding", logs=[_LOG])
MOVE_PREVIEW = MovePreview([MoveGroup(step=18, next_step=21, is_sending=False, enrollments=40)], more=False)
MOVED = Moved(seen=40, moved=38, completed=1, last=1057, more=False)
EVENT_DONE = ContactEventDone(1)
