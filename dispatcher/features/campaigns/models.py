"""Models of campaigns: definitions, plans, deployments and tests."""

from datetime import UTC, datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Raw, Struct, field, structs

from dispatcher.base.values.time_zones import ZONE_MAX
from dispatcher.features.contacts.models import Audience
from dispatcher.http.models import Asked, Json, Limit, LongCursor, Moment, ShortText, Text, page_model
from dispatcher.plans.simulation.planned import PlannedMessage

RECIPIENTS_MAX = 100
RATE_MAX = 1_000_000
LaneName = Literal["transactional", "normal", "bulk"]
Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
Rate = Annotated[float, Meta(gt=0, le=RATE_MAX, description="Messages a second, of all replicas together.")]
Topic = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$(?!\n)")]
_HOUR = r"([01][0-9]|2[0-3]):[0-5][0-9]"


class CampaignQuery(Asked, frozen=True):
    """A filter and page of campaigns."""

    channel: ShortText | None = None
    after: Annotated[ShortText | None, Meta(description="Only those whose names come after this one.")] = None
    cursor: LongCursor | None = None
    limit: Limit = 50


class SendWindow(Asked, frozen=True, omit_defaults=True):
    """When it may send, by the clocks of a time zone."""

    opens: Annotated[str, Meta(pattern=rf"^{_HOUR}$(?!\n)", examples=["09:00"])] = field(name="from")
    closes: Annotated[str, Meta(pattern=rf"^({_HOUR}|24:00)$(?!\n)", examples=["18:00"])] = field(name="to")
    days: Annotated[list[Day], Meta(min_length=1, description="On these; every day without them.")] | None = None
    time_zone: Annotated[str, Meta(min_length=1, max_length=ZONE_MAX)] = "UTC"


class NewCampaign(Asked, frozen=True, kw_only=True):
    """A campaign: a message, and who gets it."""

    channel: ShortText
    template: Annotated[ShortText, Meta(description="A stored template of the channel, published.")]
    audience: Audience
    variables: Annotated[Json, Meta(description="What its template reads beside `contact`.")] = field(
        default_factory=dict
    )
    lane: LaneName = "bulk"
    topic: Annotated[Topic | None, Meta(description="What one can unsubscribe from.")] = None
    rate: Rate | None = None
    send_window: SendWindow | None = None


# More of them would take longer than a request may.
LOOKED_AT_MAX = 500_000


class PlanQuery(Asked, frozen=True):
    """How thoroughly a plan looks."""

    looked_at_max: Annotated[
        int, Meta(ge=1, le=LOOKED_AT_MAX, description="The contacts that are looked at, at most.")
    ] = LOOKED_AT_MAX


class NewDeployment(Asked, frozen=True):
    """When a campaign is sent, and the key of the deployment."""

    scheduled_for: Annotated[Moment | None, Meta(description="At once without it.")] = None
    idempotency_key: Annotated[Text | None, Meta(description="It makes one run; the second deployment gets that.")] = (
        None
    )


class NewCampaignTest(Asked, frozen=True):
    """The addresses that get a test."""

    recipients: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=2_000)]], Meta(min_length=1, max_length=RECIPIENTS_MAX)
    ]


class Campaign(Struct, frozen=True, kw_only=True):
    """A campaign in short."""

    name: str
    channel: str
    template: str
    lane: str
    topic: str | None
    rate: float | None
    version: int
    updated_at: datetime
    updated_by: str


class LastRun(Struct, frozen=True, kw_only=True):
    """How far the last run of a campaign has come, as in a list of runs."""

    id: int
    status: str
    paused: bool
    cancelled: bool
    scheduled_for: datetime
    created_at: datetime
    intended: int
    sent: int
    failed: int
    skipped: int
    cancelled_count: int
    expired: int
    held: int
    waiting: int


class ListedCampaign(Campaign, frozen=True, kw_only=True):
    """A campaign in short, with its last run."""

    last_run: Annotated[LastRun | None, Meta(description="That is no test; null: it was never deployed.")]


Campaigns = page_model("Campaigns", "campaigns", ListedCampaign, "A page, by name.")


class WholeCampaign(Campaign, frozen=True, kw_only=True):
    """A campaign with all of its fields."""

    id: str
    # As they were written: reading them would round their numbers.
    variables: Raw
    audience: Raw
    send_window: SendWindow | None
    created_at: datetime
    open_run: Annotated[int | None, Meta(description="Its run that has not ended: until then it cannot be changed.")]


class SavedCampaign(WholeCampaign, frozen=True, kw_only=True):
    """A campaign as it stands now."""

    answer: Literal["created", "changed", "same"]


class DeletedCampaign(Struct, frozen=True):
    """The result of deleting a campaign."""

    name: str
    answer: str


class SkippedContacts(Struct, frozen=True):
    """How many contacts would get no message, and why."""

    reason: str
    count: int


class LackingVariable(Struct, frozen=True):
    """A variable that the template reads and some recipients lack, with keys of the first of them."""

    variable: str
    count: int
    examples: list[str]


class PlannedCampaign(Struct, frozen=True, kw_only=True):
    """What a deployment would come to now."""

    campaign: str
    template_version: int
    contacts: int
    looked_at: Annotated[int, Meta(description="The first of them, to which all other figures but the time refer.")]
    recipients: Annotated[int, Meta(description="Those who would get a message.")]
    skipped: list[SkippedContacts]
    lacking: list[LackingVariable]
    limit_per_second: Annotated[float | None, Meta(description="The lowest rate that is set; null: there is none.")]
    seconds: Annotated[float | None, Meta(description="Of sending to all at this limit; null: no limit is set.")]
    refused: Annotated[str | None, Meta(description="Why it would be refused as it stands.")]
    messages: Annotated[list[PlannedMessage], Meta(description="Of up to ten contacts.")]


class DeployedCampaign(Struct, frozen=True):
    """The run of a deployment; for a duplicate the run that its key has made before."""

    run_id: int
    campaign: str
    status: str
    intended: int
    jobs: int
    duplicate: bool


class TestedCampaign(Struct, frozen=True):
    """The run of a test."""

    run_id: int
    campaign: str


_AT = datetime(2030, 1, 31, 8, 0, 0, tzinfo=UTC)
_CAMPAIGN = Campaign(
    name="spring-sale",
    channel="email",
    template="sale",
    lane="bulk",
    topic="news",
    rate=100.0,
    version=2,
    updated_at=_AT,
    updated_by="key shop",
)
_WHOLE = structs.asdict(_CAMPAIGN) | {
    "id": "0b7f2f3e-5a8e-4f0e-9d56-0f9d1c1f6a55",
    "variables": Raw(b'{"discount":20}'),
    "audience": Raw(b'{"tags":["newsletter"]}'),
    "send_window": SendWindow("09:00", "18:00", ["mon", "tue"], "Europe/Berlin"),
    "created_at": _AT,
    "open_run": None,
}
_LAST = LastRun(
    id=17,
    status="running",
    paused=False,
    cancelled=False,
    scheduled_for=_AT,
    created_at=_AT,
    intended=12_000,
    sent=5_000,
    failed=1,
    skipped=1_204,
    cancelled_count=0,
    expired=0,
    held=0,
    waiting=5_795,
)
CAMPAIGNS = Campaigns([ListedCampaign(**structs.asdict(_CAMPAIGN), last_run=_LAST)], next_cursor=None)
WHOLE = WholeCampaign(**_WHOLE)
SAVED = SavedCampaign(**_WHOLE, answer="created")
DELETED = DeletedCampaign("spring-sale", "deleted")
PLANNED = PlannedCampaign(
    campaign="spring-sale",
    template_version=3,
    contacts=12_000,
    looked_at=12_000,
    recipients=10_796,
    skipped=[SkippedContacts("unsubscribed: from news", 1_204)],
    lacking=[LackingVariable("contact.attributes.plan", 2, ["customer-17", "customer-18"])],
    limit_per_second=100.0,
    seconds=107.96,
    refused=None,
    messages=[
        PlannedMessage(
            channel="email",
            recipient="ann@example.org",
            template="sale",
            version=3,
            locale="en",
            parts={"subject": "20 % for you, Ann"},
            bytes=17,
            rendered=True,
            skipped=None,
            error=None,
        )
    ],
)
DEPLOYED = DeployedCampaign(17, "spring-sale", "queued", 12_000, 12, duplicate=False)
TESTED = TestedCampaign(18, "spring-sale")
window_of = msgspec.json.Decoder(SendWindow).decode
last_run_of = msgspec.json.Decoder(LastRun).decode
