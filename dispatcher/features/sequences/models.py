"""Models of the requests and answers about sequences and enrolments, with the names that SE-01 gives them."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, structs

from dispatcher.base.errors import Fault
from dispatcher.base.values.time_zones import ZONE_MAX
from dispatcher.features.sequences.rules import DAYS_MAX, ORDER_MAX, STEPS_MAX, Anchor, OnFailure, Settings, Step
from dispatcher.http.cursors import ID_MAX
from dispatcher.http.models import VERSION_MAX, Asked, Cursor, Json, Limit, LongCursor, Moment, Reason, ShortText, Text

# One statement has its time; the command asks again until there is nothing left.
CHANGED_MAX = 1_000
DEFINITIONS_MAX = 500
Status = Literal["draft", "active", "paused"]
EnrolmentStatus = Literal["active", "paused", "completed", "cancelled"]
ContactId = Annotated[
    int | Annotated[str, Meta(min_length=1, max_length=200)], Meta(description="A contact by its id or its key.")
]
Content = Annotated[
    str | dict[str, str],
    Meta(description="A text, or one for each part. Of an e-mail, a text has the step's name as its subject."),
]


class StepFields(Asked, frozen=True, kw_only=True, rename="camel"):
    """A step: on which day and hour it sends what, and on which channel. It has content or a stored template."""

    day_offset: Annotated[int, Meta(ge=0, le=DAYS_MAX, description="Days after the anchor.")]
    step_order: Annotated[int, Meta(ge=0, le=ORDER_MAX)]
    send_hour: Annotated[int, Meta(ge=0, le=23, description="On the wall; the anchor's time without it.")] | None = None
    channel: ShortText
    name: Annotated[Text | None, Meta(description="It keeps the step known in later versions.")] = None
    template: ShortText | None = None
    content: Content | None = None

    def step(self, number: int | None = None) -> Step:
        """Return it as it is stored."""
        return Step(id=number, **structs.asdict(self))


class IdentifiedStep(StepFields, frozen=True, kw_only=True, rename="camel"):
    """A step of a definition; with an id it is the stored one of that id, whatever it is called."""

    id: Annotated[int, Meta(ge=1, le=ID_MAX)] | None = None


class Definition(Asked, frozen=True, kw_only=True, rename="camel"):
    """A sequence as people write it."""

    name: ShortText | None = None
    description: Annotated[str, Meta(max_length=2_000)] | None = None
    time_zone: Annotated[str, Meta(min_length=1, max_length=ZONE_MAX, description="Of days and hours.")] = "UTC"
    use_contact_time_zone: Annotated[bool, Meta(description="The contact's own zone, where it has one.")] = False
    anchor: Annotated[Anchor, Meta(description="What days are counted from.")] = "enrolment"
    on_failure: Annotated[OnFailure, Meta(description="What a step that has failed does to its enrolment.")] = "pause"
    stop_on: Annotated[ShortText | None, Meta(description="An event of the contact that ends its enrolment.")] = None
    stop_if: Annotated[str, Meta(max_length=2_000, description="A condition on the contact; Liquid.")] | None = None
    lane: Literal["transactional", "normal", "bulk"] = "bulk"
    topic: Annotated[str, Meta(max_length=64, description="What contacts can unsubscribe from.")] | None = None
    steps: Annotated[list[IdentifiedStep], Meta(max_length=STEPS_MAX)] = []  # noqa: RUF012 - msgspec copies it

    @property
    def settings(self) -> Settings:
        """Return what holds for all steps."""
        return Settings(**{name: getattr(self, name) for name in Settings.__struct_fields__})

    def drafted(self) -> list[Step]:
        """Return its steps as they are stored."""
        return [Step(**structs.asdict(one)) for one in self.steps]


class SequenceQuery(Asked, frozen=True):
    """A filter and page of sequences."""

    status: Status | None = None
    after: Annotated[ShortText | None, Meta(description="Only those whose names come after this one.")] = None
    cursor: LongCursor | None = None
    limit: Limit = 50


class SequenceRow(Struct, frozen=True, kw_only=True, rename="camel"):
    """A sequence in short."""

    id: int
    name: str
    status: str
    version: Annotated[int, Meta(description="That contacts are enrolled in; 0: none.")]
    is_changed: Annotated[bool, Meta(description="Whether its draft says something else.")]
    steps: int
    updated_at: datetime
    updated_by: str


class SequencePage(Struct, frozen=True):
    """A page, by name."""

    sequences: list[SequenceRow]
    next_cursor: str | None


class FunnelStep(Struct, frozen=True, kw_only=True, rename="camel"):
    """A step of any version: how many enrolments wait for it, and what has become of its messages."""

    step_id: int
    name: str | None
    waiting: int
    pending: int
    sent: int
    failed: int
    skipped: int


class SequenceVersion(Struct, frozen=True, kw_only=True, rename="camel"):
    """A version in short, with its open enrolments, counted to 10,000."""

    number: int
    steps: int
    enrolled: int
    author: str
    created_at: datetime


class Sequence(Struct, frozen=True, kw_only=True, rename="camel"):
    """A sequence with its draft, its funnel and its versions."""

    id: int
    user_id: str
    name: str
    status: str
    version: int
    revision: int
    is_changed: bool
    settings: Json
    steps: list[Json]
    enrolments: Annotated[dict[str, int], Meta(description="How many are active, paused, completed, cancelled.")]
    funnel: list[FunnelStep]
    versions: list[SequenceVersion]
    created_at: datetime
    updated_at: datetime
    updated_by: str
    paused_at: datetime | None


class SavedSequence(Struct, frozen=True, kw_only=True):
    """The result of saving a draft: created, changed or same; and its steps with their ids."""

    name: str
    answer: str
    status: str
    version: int
    revision: int
    steps: list[Json]


class Definitions(Asked, frozen=True):
    """Definitions that are compared with what is stored."""

    sequences: Annotated[list[Definition], Meta(min_length=1, max_length=DEFINITIONS_MAX)]


class ComparedSequence(Struct, frozen=True, kw_only=True):
    """The faults of a definition, or what is stored under its name and whether it is the same."""

    name: str | None
    stored: bool = False
    same: bool = False
    published: Annotated[bool, Meta(description="Whether what is stored is published.")] = False
    version: int = 0
    faults: list[Fault] = []


class ComparedSequences(Struct, frozen=True):
    """In the order in which they were given."""

    sequences: list[ComparedSequence]


class SwitchedSequence(Struct, frozen=True):
    """The result of an action: published, done, same or deleted."""

    name: str
    answer: str
    version: int | UnsetType = UNSET


class PreviewQuery(Asked, frozen=True, rename="camel"):
    """For whom, and as if enrolled when."""

    contact_id: ContactId
    enrolled_at: Moment | None = None


class PreviewedStep(Struct, frozen=True, kw_only=True, rename="camel"):
    """A step as it would be sent: when, where to and what; or why not."""

    id: int
    name: str | None
    channel: str
    at: datetime
    recipient: str | None
    parts: dict[str, str]
    fault: str | None = None


class Previewed(Struct, frozen=True):
    """The steps of the draft in their order."""

    steps: list[PreviewedStep]


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


class Audience(Asked, frozen=True, kw_only=True, rename="camel"):
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
    audience: Audience | None = None
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


class Move(Asked, frozen=True, kw_only=True):
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
STEP: Json = {"name": "welcome", "dayOffset": 0, "stepOrder": 1, "sendHour": 9, "channel": "email"}
STEP |= {"content": {"subject": "Welcome, {{ contact.name }}", "text": "Good to have you here."}}
_ROW = SequenceRow(
    id=3, name="onboarding", status="active", version=2, is_changed=False, steps=3, updated_at=_AT, updated_by="key ann"
)
SEQUENCES = SequencePage([_ROW], next_cursor=None)
_SETTINGS: Json = {"timeZone": "UTC", "anchor": "enrolment", "onFailure": "pause"}
SEQUENCE = Sequence(
    id=3,
    user_id="key ann",
    name="onboarding",
    status="active",
    version=2,
    revision=5,
    is_changed=False,
    settings=_SETTINGS,
    steps=[STEP | {"id": 17}],
    enrolments={"active": 7, "completed": 30},
    funnel=[FunnelStep(step_id=17, name="welcome", waiting=2, pending=0, sent=35, failed=0, skipped=1)],
    versions=[SequenceVersion(number=2, steps=3, enrolled=7, author="key ann", created_at=_AT)],
    created_at=_AT,
    updated_at=_AT,
    updated_by="key ann",
    paused_at=None,
)
SAVED = SavedSequence(
    name="onboarding", answer="changed", status="active", version=2, revision=6, steps=[STEP | {"id": 17}]
)
COMPARED = ComparedSequences([ComparedSequence(name="onboarding", stored=True, same=True, published=True, version=2)])
SWITCHED = SwitchedSequence("onboarding", "done")
PUBLISHED = SwitchedSequence("onboarding", "published", 3)
PREVIEWED = Previewed(
    [
        PreviewedStep(
            id=17, name="welcome", channel="email", at=_AT, recipient="ann@example.org", parts={"text": "Hello"}
        )
    ]
)
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
