"""Models of runs: triggers, events, queries and answers."""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Raw, Struct, field, structs

from dispatcher.features.workflows.models import Step, Way
from dispatcher.http.cursors import ID_MAX
from dispatcher.http.models import BEGUN, ENDED, Asked, Before, Cursor, Json, Limit, ShortText, Text, page_model

RunStatus = Literal["pending", "running", "waiting", "paused", "completed", "failed", "cancelled"]


class NewTrigger(Asked, frozen=True):
    """A trigger: the input of a run, and its idempotency key."""

    input: Annotated[Json, Meta(description="What its workflow reads.")] = field(default_factory=dict)
    idempotency_key: Annotated[Text | None, Meta(description="It starts one run; the second trigger gets that.")] = None
    correlation_id: Annotated[Text | None, Meta(description="Another name for idempotency_key.")] = None


class Triggered(Struct, frozen=True):
    """The run of a trigger; for a duplicate the run that its key has started before."""

    execution_id: int
    workflow_name: str
    version: int
    status: str
    total_steps: int
    duplicate: bool


class RunQuery(Asked, frozen=True):
    """A filter and page of runs."""

    workflow: ShortText | None = None
    status: RunStatus | None = None
    since: Annotated[datetime, Meta(description="Begun then or later.", tz=True)] | None = None
    idempotency_key: Text | None = None
    before: Before = ID_MAX
    cursor: Cursor | None = None
    limit: Limit = 50


class Run(Struct, frozen=True, kw_only=True):
    """A run in short."""

    execution_id: int
    tenant_id: str
    workspace_id: str
    workflow_name: str
    version: int
    status: str
    current_steps: list[str]
    total_steps: int
    idempotency_key: str | None
    triggered_by: str
    retry_count: int
    error: str | None
    error_step: str | None
    note: str | None
    available_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


Runs = page_model("Runs", "runs", Run, "A page, the newest first.")


class Visit(Struct, frozen=True, omit_defaults=True):
    """A node that a run is at: what it does there, since when and until when, in seconds since 1970."""

    standing: str
    since: float
    until: float | None = None


class RunAttempt(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An attempt that did not end one of its deliveries well."""

    at: datetime
    event: str
    node: str
    delivery_id: int
    recipient: str
    attempt: int
    error: str | None = None
    next_at: datetime | None = None


class Ordered(Struct, frozen=True, kw_only=True):
    """A delivery that a run has ordered."""

    id: int
    node: str
    channel: str
    recipient: str
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


class RunPageQuery(Asked, frozen=True):
    """The page of a list about one run."""

    cursor: Cursor | None = None
    limit: Limit = 100


OrderedDeliveries = page_model("OrderedDeliveries", "deliveries", Ordered, "A page, the first ones first.")


class GraphLine(Struct, frozen=True):
    """A line of a graph as it is drawn, and the node that stands on it."""

    text: str
    node: str | None = None


class WholeRun(Run, frozen=True, kw_only=True):
    """A run with what it was given, what its nodes have added to that, and the deliveries that it has ordered."""

    paused_at: datetime | None
    discarded_at: datetime | None
    is_enrolment: Annotated[bool, Meta(description="Whether it is an enrolment in a sequence.")]
    steps: list[Step]
    graph: Annotated[list[GraphLine], Meta(description="Its plan, drawn in lines of text.")]
    cursor: Annotated[dict[str, Visit], Meta(description="The nodes that it is at.")]
    counts: Annotated[dict[str, dict[str, int]], Meta(description="How the deliveries of each node stand.")]
    attempts: Annotated[list[RunAttempt], Meta(description="The first 500 that did not end a delivery well.")]
    input: Raw
    context: Raw
    held: int
    deliveries_total: int
    deliveries: list[dict[str, Any]]


class Entry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An entry in the log of a run."""

    number: int
    at: datetime
    event: str
    step: int | None = None
    node: str | None = None
    context: Raw = None  # type: ignore[assignment]  # Raw has no union with None
    added: Raw = None  # type: ignore[assignment]  # as above
    error: str | None = None


Log = page_model("Log", "entries", Entry, "A page, the oldest first.")


class ProgressQuery(Asked, frozen=True):
    """The first entry of the log that is wanted."""

    first: Annotated[int, Meta(ge=0, le=ID_MAX, description="The number of the first entry that is not.")] = 0
    limit: Limit = 500


class Progress(Struct, frozen=True, kw_only=True):
    """Where a run stands, and what its log says from an entry on."""

    run: Run
    cursor: dict[str, Visit]
    counts: dict[str, dict[str, int]]
    entries: list[Entry]
    more: Annotated[bool, Meta(description="Whether its log goes on.")]


class Signal(Asked, frozen=True):
    """An event for a run; it is stored until a node waits for it."""

    event: Text
    data: Annotated[Json, Meta(description="What it says.")] = field(default_factory=dict)


_COUNTS = {"mail": {"all": 1, "queued": 0, "held": 0, "failed": 0, "skipped": 0, "attempts": 1}}
_CURSOR = {"later": Visit("delaying", 1_896_163_200.0, 1_896_163_201.0)}
_ENTRY = Entry(number=1, at=BEGUN, event="started", step=0, node="mail", context=Raw(b'{"order":{"id":17}}'))
_RUN = Run(
    execution_id=23,
    tenant_id="default",
    workspace_id="default",
    workflow_name="order_shipped",
    version=3,
    status="waiting",
    current_steps=["later"],
    total_steps=4,
    idempotency_key="order-17",
    triggered_by="key shop",
    retry_count=0,
    error=None,
    error_step=None,
    note=None,
    available_at=ENDED,
    created_at=BEGUN,
    started_at=BEGUN,
    finished_at=None,
)
_ATTEMPT = RunAttempt(
    at=BEGUN,
    event="retry",
    node="mail",
    delivery_id=17,
    recipient="ann@example.org",
    attempt=1,
    error="451 try again",
    next_at=ENDED,
)
_ORDERED = Ordered(
    id=17,
    node="mail",
    channel="email",
    recipient="ann@example.org",
    life="sent",
    status="sent",
    attempt=2,
    tries=2,
    max_attempts=3,
    run_at=BEGUN,
    finished_at=ENDED,
    provider_message_id="m-4711",
    error=None,
)
TRIGGERED = Triggered(23, "order_shipped", 3, "queued", 4, duplicate=False)
RUNS = Runs([_RUN], next_cursor=None)
WHOLE_RUN = WholeRun(
    **structs.asdict(_RUN),
    paused_at=None,
    discarded_at=None,
    is_enrolment=False,
    steps=[Step(0, "mail", "email to {{ customer.email }}", [Way("later")]), Step(1, "later", "delay 1s")],
    graph=[GraphLine("● mail  email to {{ customer.email }}", "mail"), GraphLine("│"), GraphLine("● later", "later")],
    cursor=_CURSOR,
    counts=_COUNTS,
    attempts=[_ATTEMPT],
    input=Raw(b'{"order":{"id":17}}'),
    context=Raw(b'{"order":{"id":17},"step_0_result":{"status":"sent","message_id":"m-4711"}}'),
    held=0,
    deliveries_total=1,
    deliveries=[{"id": 17, "node": "mail", "channel": "email", "status": "sent"}],
)
ORDERED_DELIVERIES = OrderedDeliveries([_ORDERED], next_cursor=None)
PROGRESS = Progress(run=_RUN, cursor=_CURSOR, counts=_COUNTS, entries=[_ENTRY], more=False)
LOG = Log([_ENTRY], next_cursor=None)
