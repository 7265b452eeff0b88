"""Models of rules, triggers and events: requests and answers."""

from datetime import UTC, datetime
from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct, field

from dispatcher.base.values.sms_segments import Segments
from dispatcher.http.models import Asked, Json, Limit, LongCursor, Moment, ShortText

RULES_MAX = 1_000
EVENTS_MAX = 1_000
Trigger = Annotated[str, Meta(min_length=1, max_length=64, description="The name of a trigger.")]
Word = Annotated[str, Meta(min_length=1, max_length=32)]
Decided = Literal["scheduled", "skipped", "suppressed", "fallback", "none", "duplicate"]


class RuleQuery(Asked, frozen=True):
    """A filter and page of rules."""

    trigger: Trigger | None = None
    cursor: LongCursor | None = None
    limit: Limit = 50


class NewStep(Asked, frozen=True):
    """A message of a rule."""

    template: Annotated[ShortText, Meta(description="The name of a stored template of the rule's channel.")]
    offset: Annotated[str, Meta(max_length=100, description="After the event; with - before it, such as -24h.")] = "0s"
    recipients: Annotated[
        Json | None,
        Meta(
            description="includeLeadContact, includePartner, includeAgent (true), customEmails or customPhones "
            "(lists). Without it: whom the audience names."
        ),
    ] = None
    enabled: bool = True
    order: Annotated[int, Meta(ge=0, le=10_000, description="Its place; that in the list without it.")] | None = None


class RuleContent(Asked, frozen=True):
    """The content of a rule."""

    enabled: Annotated[bool, Meta(description="A disabled rule suppresses its channel, without a fallback.")] = True
    steps: Annotated[list[NewStep], Meta(max_length=100)] = field(default_factory=list)


class NewRule(RuleContent, frozen=True, kw_only=True):
    """A rule with its name."""

    trigger: Trigger
    channel: Word
    audience: Word


class SaveRules(Asked, frozen=True):
    """Rules to save, all or none."""

    rules: Annotated[list[NewRule], Meta(min_length=1, max_length=RULES_MAX)]
    check: Annotated[bool, Meta(description="Save nothing; only say what would be done.")] = False


class RuleStep(Struct, frozen=True):
    """A stored message of a rule."""

    template: str
    offset: str
    recipients: Json
    enabled: bool
    order: int


class Rule(Struct, frozen=True, kw_only=True):
    """A stored rule."""

    name: str
    trigger: str
    channel: str
    audience: str
    enabled: bool
    steps: list[RuleStep]
    version: int
    updated_at: datetime
    updated_by: str


class Rules(Struct, frozen=True):
    """A page, by name."""

    rules: list[Rule]
    next_cursor: str | None


class SavedRule(Struct, frozen=True):
    """What was done with a rule."""

    name: str
    answer: Literal["created", "changed", "same"]
    version: int | None


class SavedRules(Struct, frozen=True):
    """What was done with each, and the names of further rules that are stored."""

    rules: list[SavedRule]
    others: list[str]


class SwitchedRule(Struct, frozen=True):
    """The result of an action: done or same."""

    name: str
    answer: str


class Pair(Asked, frozen=True):
    """A channel and an audience of a trigger, and what happens there without a rule."""

    channel: Word
    audience: Word
    fallback: Annotated[
        Literal["message", "caller", "none"],
        Meta(description="The built-in message, the caller's own code, or nothing."),
    ] = "none"


class NewEventTrigger(Asked, frozen=True):
    """An entry of the catalogue."""

    variables: Annotated[list[str], Meta(max_length=200, description="What each event promises to bring.")]
    description: Annotated[str, Meta(max_length=1_000)] = ""
    sample: Annotated[Json, Meta(description="An example of the variables, for explanations.")] = field(
        default_factory=dict
    )
    pairs: Annotated[list[Pair], Meta(max_length=100)] = field(default_factory=list)


class EventTrigger(Struct, frozen=True):
    """An entry of the catalogue; `own`: it was added or replaced here, and does not come with the program."""

    name: str
    description: str
    variables: list[str]
    sample: Raw
    pairs: list[Pair]
    own: bool


class EventTriggers(Struct, frozen=True):
    """The catalogue, by name."""

    triggers: list[EventTrigger]


class NewEvent(Asked, frozen=True):
    """An event."""

    trigger: Trigger
    variables: Json = field(default_factory=dict)
    lead: Annotated[Json | None, Meta(description="email, phone, name, locale, and whatever templates read.")] = None
    partner: Json | None = None
    agent: Json | None = None
    event_at: Annotated[Moment | None, Meta(description="Its own time; now without it.")] = None
    message_id: (
        Annotated[str, Meta(min_length=1, max_length=255, description="Its key: an event of a source is handled once.")]
        | None
    ) = None
    source: Annotated[ShortText | None, Meta(description="Who tells it; default without it.")] = None


class NewEvents(Asked, frozen=True):
    """Events, all or none."""

    events: Annotated[list[NewEvent], Meta(min_length=1, max_length=EVENTS_MAX)]


class EventStep(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was decided for a step of a rule."""

    step: int
    template: str
    at: datetime
    decision: str
    reason: str | None = None
    recipients: int | None = None
    found: list[Json] | None = None
    to: list[Json] | None = None


class Decision(Struct, frozen=True, kw_only=True):
    """What was decided for a channel and an audience, and why. Of a duplicate, `first_decision` is the first answer."""

    event_id: int
    channel: str
    audience: str
    decision: Decided
    reason: str
    fallback: str | None
    first_decision: str
    outcome: str | None
    steps: list[EventStep]
    delivery_ids: list[int]


class Notified(Struct, frozen=True):
    """The answer to an event."""

    decisions: list[Decision]


class NotifiedMany(Struct, frozen=True):
    """The answers to events, in their order."""

    events: list[Notified]


class Outcome(Asked, frozen=True):
    """What became of the caller's own code."""

    channel: Word
    audience: Word
    outcome: Literal["done", "failed"]
    error: Annotated[str, Meta(max_length=1_000)] | None = None


class NotedOutcome(Struct, frozen=True):
    """Whether it was noted, or known before."""

    answer: Literal["noted", "before"]


class ExplainedMessage(Struct, frozen=True, kw_only=True):
    """A message as it would be sent."""

    channel: str
    audience: str
    recipient: str
    at: datetime
    expires_at: datetime | None
    template: str | None
    version: int | None
    parts: dict[str, str]
    fault: str | None
    sms: Segments | None = None


class Explained(Struct, frozen=True):
    """What an event would do: nothing of it is written."""

    decisions: list[Decision]
    messages: list[ExplainedMessage]


_AT = datetime(2030, 1, 31, 8, 0, 0, tzinfo=UTC)
_STEP = RuleStep("quote/sent", "0s", {"includeLeadContact": True}, enabled=True, order=1)
RULE = Rule(
    name="quote_sent/email/lead",
    trigger="quote_sent",
    channel="email",
    audience="lead",
    enabled=True,
    steps=[_STEP],
    version=1,
    updated_at=_AT,
    updated_by="key ann",
)
RULES = Rules([RULE], None)
SAVED = SavedRules([SavedRule("quote_sent/email/lead", "created", 1)], [])
SWITCHED = SwitchedRule("quote_sent/email/lead", "done")
TRIGGER = EventTrigger(
    "invoice_due", "An invoice is due.", ["invoice.number"], Raw(b"{}"), [Pair("email", "lead", "caller")], own=True
)
TRIGGERS = EventTriggers([TRIGGER])
_DECISION = Decision(
    event_id=17,
    channel="email",
    audience="lead",
    decision="scheduled",
    reason="the rule is enabled",
    fallback=None,
    first_decision="scheduled",
    outcome=None,
    steps=[EventStep(step=1, template="quote/sent", at=_AT, decision="scheduled", recipients=1)],
    delivery_ids=[170],
)
NOTIFIED = Notified([_DECISION])
NOTIFIED_MANY = NotifiedMany([NOTIFIED])
NOTED = NotedOutcome("noted")
EXPLAINED = Explained(
    [_DECISION],
    [
        ExplainedMessage(
            channel="email",
            audience="lead",
            recipient="ann@example.org",
            at=_AT,
            expires_at=None,
            template="quote/sent",
            version=1,
            parts={"subject": "Your quote"},
            fault=None,
        )
    ],
)
