"""Models of the requests and answers about sequences and enrolments, with the names that SE-01 gives them."""

from datetime import UTC, datetime
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, structs

from dispatcher.base.errors import Fault
from dispatcher.base.values.sms_segments import Segments
from dispatcher.base.values.time_zones import ZONE_MAX
from dispatcher.features.sequences.rules import DAYS_MAX, ORDER_MAX, STEPS_MAX, Anchor, OnFailure, Settings, Step
from dispatcher.http.cursors import ID_MAX
from dispatcher.http.models import Asked, Json, Limit, LongCursor, Moment, ShortText, Text

DEFINITIONS_MAX = 500
Status = Literal["draft", "active", "paused"]
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


class SequenceDefinition(Asked, frozen=True, kw_only=True, rename="camel"):
    """A sequence as people write it."""

    name: ShortText | None = None
    description: Annotated[str, Meta(max_length=2_000)] | None = None
    time_zone: (
        Annotated[str, Meta(min_length=1, max_length=ZONE_MAX, description="Of days and hours; else the workspace's.")]
        | None
    ) = None
    use_contact_time_zone: Annotated[bool, Meta(description="The contact's own zone, where it has one.")] = False
    anchor: Annotated[Anchor, Meta(description="What days are counted from.")] = "enrolment"
    on_failure: Annotated[OnFailure, Meta(description="What a step that has failed does to its enrolment.")] = "pause"
    stop_on: Annotated[ShortText | None, Meta(description="An event of the contact that ends its enrolment.")] = None
    stop_if: Annotated[str, Meta(max_length=2_000, description="A condition on the contact; Liquid.")] | None = None
    lane: Literal["transactional", "normal", "bulk"] = "bulk"
    topic: Annotated[str, Meta(max_length=64, description="What contacts can unsubscribe from.")] | None = None
    steps: Annotated[list[IdentifiedStep], Meta(max_length=STEPS_MAX)] = []  # noqa: RUF012 - msgspec copies it

    def settings(self, zone: str) -> Settings:
        """Return what holds for all steps, by the clocks of a zone where it names none."""
        said = {name: getattr(self, name) for name in Settings.__struct_fields__}
        return Settings(**said | {"time_zone": self.time_zone or zone})

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
    """A step of any version: of 10,000 enrolments those that wait for it, and what became of its newest messages."""

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
    enrolments: Annotated[
        dict[str, int], Meta(description="How many of the newest 10,000 are active, paused, completed, cancelled.")
    ]
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


class SequenceDefinitions(Asked, frozen=True):
    """Definitions that are compared with what is stored."""

    sequences: Annotated[list[SequenceDefinition], Meta(min_length=1, max_length=DEFINITIONS_MAX)]


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
    sms: Segments | None = None


class Previewed(Struct, frozen=True):
    """The steps of the draft in their order."""

    steps: list[PreviewedStep]


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
