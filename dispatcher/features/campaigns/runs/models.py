"""Models of campaign runs: lists, progress, jobs, trace, audit log and check."""

from datetime import UTC, datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct, structs

from dispatcher.features.campaigns.models import Rate, SendWindow
from dispatcher.http.bulk import AT_ONCE_MAX, AtOnce
from dispatcher.http.cursors import ID_MAX
from dispatcher.http.models import Asked, Before, Cursor, Limit, ShortText, Why, page_model

JOBS_CHECKED = 100
RunStatus = Literal["queued", "running", "completed", "partial", "failed"]
JobStatus = Literal["queued", "locked", "completed", "partial", "failed", "dead"]
OutboxStatus = Literal["queued", "sent", "called", "posted", "failed", "skipped"]


class CampaignRunQuery(Asked, frozen=True):
    """A filter and page of campaign runs."""

    campaign: ShortText | None = None
    status: RunStatus | None = None
    test: Annotated[bool | None, Meta(description="Tests, or all but tests.")] = None
    before: Before = ID_MAX
    cursor: Cursor | None = None
    limit: Limit = 50


class CampaignRun(Struct, frozen=True, kw_only=True):
    """A run of a campaign with its counters."""

    id: int
    tenant_id: str
    workspace_id: str
    campaign: str
    campaign_id: str
    status: RunStatus
    paused: bool
    cancelled: bool
    test: bool
    channel: str
    template: str
    lane: str
    topic: str | None
    idempotency_key: str | None
    created_by: str
    scheduled_for: datetime
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    intended: int
    sent: int
    failed: int
    skipped: Annotated[int, Meta(description="For a good reason: no address, unsubscribed, suppressed, duplicate.")]
    cancelled_count: Annotated[int, Meta(description="Not sent, since the run was cancelled.")]
    expired: int
    held: Annotated[int, Meta(description="Nobody knows whether they were sent: the run waits for them.")]
    waiting: Annotated[int, Meta(description="Neither ended nor held.")]
    jobs: int
    jobs_completed: int
    jobs_partial: int
    jobs_failed: int
    jobs_dead: int


CampaignRuns = page_model("CampaignRuns", "campaign_runs", CampaignRun, "A page, the newest first.")


class ReasonCount(Struct, frozen=True):
    """How many deliveries have not been sent for a reason: failed, skipped, cancelled or expired."""

    outcome: str
    reason: str
    count: int


class WholeCampaignRun(CampaignRun, frozen=True, kw_only=True):
    """A run with its progress."""

    send_window: SendWindow | None
    rate: float | None
    pace: Annotated[float, Meta(description="Deliveries that end a second, of late.")]
    seconds_left: Annotated[float | None, Meta(description="Null: nobody can tell.")]
    reasons: Annotated[list[ReasonCount], Meta(description="Why deliveries were not sent, the most frequent first.")]


class CampaignRate(Asked, frozen=True):
    """The rate of a run from now on."""

    rate: Annotated[Rate | None, Meta(description="Null: as fast as its channel goes.")] = None


class CampaignReplay(Why, frozen=True):
    """Why failed deliveries are sent again, and how many with this request."""

    cursor: Cursor | None = None
    limit: AtOnce = AT_ONCE_MAX


class ReplayedCampaignRun(Struct, frozen=True):
    """How many are sent again. With next_cursor there are more: the same request with it as cursor goes on."""

    replayed: int
    next_cursor: str | None


class CampaignJobQuery(Asked, frozen=True):
    """A filter and page of the jobs of a run."""

    status: JobStatus | None = None
    cursor: Cursor | None = None
    limit: Limit = 50


class CampaignJob(Struct, frozen=True, kw_only=True):
    """A job of a run."""

    id: int
    job_type: str
    status: JobStatus
    attempts: int
    intended: int
    sent: int
    failed: int
    skipped: int
    cancelled: int
    expired: int
    held: int
    created_at: datetime
    locked_at: datetime | None
    expanded_at: datetime | None
    finished_at: datetime | None
    error: str | None


Jobs = page_model("CampaignJobs", "jobs", CampaignJob, "A page, in their order.")


class CampaignTraceQuery(Asked, frozen=True):
    """A filter and page of the trace of a run."""

    status: Annotated[OutboxStatus | None, Meta(description="Of the delivery.")] = None
    cursor: Cursor | None = None
    limit: Limit = 100


class TracedDelivery(Struct, frozen=True, kw_only=True):
    """A delivery beside its job; without a delivery, a job that is not expanded."""

    job_id: int
    job_status: JobStatus
    job_attempts: int
    outbox_id: int | None
    contact_id: int | None
    recipient: str | None
    outbox_status: OutboxStatus | None
    attempts: int | None
    provider_message_id: str | None
    error: str | None
    created_at: datetime | None
    finished_at: datetime | None
    life: str | None


Trace = page_model("CampaignTrace", "trace", TracedDelivery, "A page, job by job.")


class CampaignAuditQuery(Asked, frozen=True):
    """A page of the audit log of a run."""

    entity: Annotated[Literal["run", "job", "delivery"] | None, Meta(description="Of these only.")] = None
    cursor: Cursor | None = None
    limit: Limit = 100


class CampaignEvent(Struct, frozen=True, kw_only=True):
    """Something that happened to a run, a job or a delivery."""

    at: datetime
    entity: Literal["run", "job", "delivery"]
    job_id: int | None
    delivery_id: int | None
    event: str
    status_before: str | None
    status: str | None
    actor: str
    reason: str


AuditLog = page_model(
    "CampaignAuditLog",
    "entries",
    CampaignEvent,
    "A page: first what happened to the run and its jobs, then delivery by delivery.",
)


class CampaignCheckQuery(Asked, frozen=True):
    """A part of the check of a run."""

    cursor: Cursor | None = None
    limit: Annotated[int, Meta(ge=1, le=200, description="How many jobs are checked with this request.")] = JOBS_CHECKED


class CampaignBreach(Struct, frozen=True, kw_only=True):
    """An item that breaks a sentence of the contract: 1 terminal run, 2 terminal rows, 3 no duplicates."""

    sentence: int
    job_id: int | None
    item: Annotated[str | None, Meta(description="The id of the contact; of a test, the address.")]
    delivery_id: int | None
    fault: str


class CampaignCheck(Struct, frozen=True, kw_only=True):
    """What the check of these jobs has found, with the first 100 breaches; the first page is about the run as well."""

    breaches: list[CampaignBreach]
    next_cursor: str | None
    status: RunStatus
    jobs: int
    items: int
    broken: Annotated[list[int], Meta(description="How many break each of the three sentences.")]


_AT = datetime(2030, 1, 31, 8, 0, 0, tzinfo=UTC)
_RUN = CampaignRun(
    id=17,
    tenant_id="default",
    workspace_id="default",
    campaign="spring-sale",
    campaign_id="0b7f2f3e-5a8e-4f0e-9d56-0f9d1c1f6a55",
    status="running",
    paused=False,
    cancelled=False,
    test=False,
    channel="email",
    template="sale",
    lane="bulk",
    topic="news",
    idempotency_key="spring-2030",
    created_by="key shop",
    scheduled_for=_AT,
    created_at=_AT,
    started_at=_AT,
    finished_at=None,
    intended=12_000,
    sent=5_000,
    failed=1,
    skipped=1_204,
    cancelled_count=0,
    expired=0,
    held=0,
    waiting=5_795,
    jobs=12,
    jobs_completed=5,
    jobs_partial=1,
    jobs_failed=0,
    jobs_dead=0,
)
CAMPAIGN_RUNS = CampaignRuns([_RUN], next_cursor=None)
WHOLE_CAMPAIGN_RUN = WholeCampaignRun(
    **structs.asdict(_RUN),
    send_window=None,
    rate=100.0,
    pace=99.5,
    seconds_left=58.2,
    reasons=[
        ReasonCount("skipped", "unsubscribed: from news", 1_204),
        ReasonCount("failed", "550 <address> is unknown", 1),
    ],
)
REPLAYED = ReplayedCampaignRun(2_000, "cmVwbGF5IDE5")
JOBS = Jobs(
    [
        CampaignJob(
            id=31,
            job_type="email_send_batch",
            status="partial",
            attempts=1,
            intended=1_000,
            sent=900,
            failed=1,
            skipped=99,
            cancelled=0,
            expired=0,
            held=0,
            created_at=_AT,
            locked_at=_AT,
            expanded_at=_AT,
            finished_at=_AT,
            error=None,
        )
    ],
    next_cursor=None,
)
TRACE = Trace(
    [
        TracedDelivery(
            job_id=31,
            job_status="partial",
            job_attempts=1,
            outbox_id=4711,
            contact_id=7,
            recipient="ann@example.org",
            outbox_status="sent",
            attempts=1,
            provider_message_id="<17.abc@example.org>",
            error=None,
            created_at=_AT,
            finished_at=_AT,
            life="sent",
        )
    ],
    next_cursor=None,
)
AUDIT_LOG = AuditLog(
    [
        CampaignEvent(
            at=_AT,
            entity="run",
            job_id=None,
            delivery_id=None,
            event="status",
            status_before="queued",
            status="running",
            actor="dispatcher",
            reason="",
        )
    ],
    next_cursor=None,
)
CHECKED = CampaignCheck(
    breaches=[CampaignBreach(sentence=2, job_id=31, item="7", delivery_id=4711, fault="its row is not terminal")],
    next_cursor=None,
    status="partial",
    jobs=12,
    items=12_000,
    broken=[0, 1, 0],
)
