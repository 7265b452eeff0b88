"""Models of workflows and runs: what requests say and what answers say about them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from dispatcher.api.cursors import ID_MAX
from dispatcher.api.models import Asked, Before, Cursor, Json, Limit, LongCursor, ShortText, Text
from dispatcher.errors import Fault

# One transaction saves them all: more than this is not kept by hand.
DEFINITIONS_MAX = 2_000
RunStatus = Literal["pending", "running", "waiting", "paused", "completed", "failed", "cancelled"]


# Workflows


class Definition(Asked, frozen=True, kw_only=True):
    """A workflow as people write it: a graph (entryNodeId, nodes, edges), or a list of steps."""

    name: ShortText
    description: str | None = None
    entry_node_id: str | None = field(default=None, name="entryNodeId")
    nodes: list[Json] | None = None
    edges: list[Json] | None = None
    steps: list[Json] | None = None
    required_fields: list[str] | None = None
    max_retries: int | None = None
    timeout_seconds: float | None = None
    visibility_timeout: float | None = None


class Definitions(Asked, frozen=True):
    """Many at once: all are saved, or none."""

    workflows: Annotated[list[Json], Meta(min_length=1, max_length=DEFINITIONS_MAX)]
    activate: Annotated[bool, Meta(description="Whether they take triggers from now on.")] = False


class Compare(Asked, frozen=True):
    """What is to be looked at, and not saved."""

    workflows: Annotated[list[Json], Meta(min_length=1, max_length=DEFINITIONS_MAX)]


class WorkflowQuery(Asked, frozen=True):
    """Which workflows."""

    active: Annotated[bool | None, Meta(description="Those that take triggers, or those that take none.")] = None
    after: Annotated[ShortText | None, Meta(description="Only those whose names come after this one.")] = None
    cursor: LongCursor | None = None
    limit: Limit = 50


class Workflow(Struct, frozen=True, kw_only=True):
    """A workflow in short: its newest version."""

    name: str
    active: bool
    version: int
    total_steps: int
    author: str
    created_at: datetime
    newest_run: int | None = None


class Workflows(Struct, frozen=True):
    """A page, by name."""

    workflows: list[Workflow]
    next_cursor: str | None


class Version(Struct, frozen=True, kw_only=True):
    """A version in short."""

    number: int
    total_steps: int
    author: str
    created_at: datetime


class WorkflowAction(Struct, frozen=True, kw_only=True):
    """What somebody did to a workflow."""

    at: datetime
    version: int | None
    actor: str
    action: str


class Step(Struct, frozen=True):
    """A node: its place in the definition, what it is called, and what it does in a few words."""

    step: int
    node: str
    what: str


class VersionQuery(Asked, frozen=True):
    """Which version."""

    version: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None


class WholeWorkflow(Workflow, frozen=True, kw_only=True):
    """A version of a workflow with what it says."""

    definition: Json
    latest: int
    required_fields: Sequence[str]
    reads: Annotated[list[str], Meta(description="What a trigger has to bring.")]
    templates: Annotated[list[Json], Meta(description="The stored templates that it uses.")]
    steps: list[Step]
    graph: Annotated[str, Meta(description="A drawing in lines of text.")]
    mermaid: str
    versions: Annotated[list[Version], Meta(description="The newest ones.")]
    actions: Annotated[list[WorkflowAction], Meta(description="What was done last.")]


class SavedWorkflow(Struct, frozen=True):
    """Which version says it now, and whether that is new."""

    name: str
    version: int
    created: bool
    active: bool
    total_steps: int


class SavedWorkflows(Struct, frozen=True):
    """In the order in which they were given."""

    workflows: list[SavedWorkflow]


class StoredWorkflow(Struct, frozen=True):
    """What is stored under a name."""

    version: int
    active: bool
    definition: Json


class ComparedWorkflow(Struct, frozen=True, kw_only=True):
    """What is wrong with a definition; else what is stored under its name, and whether that says and means the same."""

    name: str | None = None
    total_steps: int = 0
    stored: StoredWorkflow | None = None
    same: bool = False
    faults: Sequence[Fault] = ()


class ComparedWorkflows(Struct, frozen=True):
    """In the order in which they were given."""

    workflows: list[ComparedWorkflow]


class Switched(Struct, frozen=True):
    """What became of it."""

    name: str
    answer: str


# Runs


class NewTrigger(Asked, frozen=True):
    """What a run of a workflow begins with."""

    input: Annotated[Json, Meta(description="What its workflow reads.")] = field(default_factory=dict)
    idempotency_key: Annotated[Text | None, Meta(description="It starts one run; the second trigger gets that.")] = None
    correlation_id: Annotated[Text | None, Meta(description="Another name for idempotency_key.")] = None


class Triggered(Struct, frozen=True):
    """The run of a trigger; a duplicate is one that its key had started before."""

    execution_id: int
    workflow_name: str
    version: int
    status: str
    total_steps: int
    duplicate: bool


class RunQuery(Asked, frozen=True):
    """Which runs."""

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


class Runs(Struct, frozen=True):
    """A page, the newest first."""

    runs: list[Run]
    next_cursor: str | None


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
    max_attempts: int
    run_at: datetime | None
    finished_at: datetime | None
    provider_message_id: str | None
    error: str | None


class OrderedQuery(Asked, frozen=True):
    """Which of them."""

    cursor: Cursor | None = None
    limit: Limit = 100


class OrderedDeliveries(Struct, frozen=True):
    """A page, the first ones first."""

    deliveries: list[Ordered]
    next_cursor: str | None


class WholeRun(Run, frozen=True, kw_only=True):
    """A run with what it was given, what its nodes have added to that, and the deliveries that it has ordered."""

    paused_at: datetime | None
    discarded_at: datetime | None
    steps: list[Step]
    cursor: Annotated[dict[str, Visit], Meta(description="The nodes that it is at.")]
    counts: Annotated[dict[str, dict[str, int]], Meta(description="How the deliveries of each node stand.")]
    attempts: Annotated[list[RunAttempt], Meta(description="The first 500 that did not end a delivery well.")]
    input: Any
    context: Any
    held: int
    deliveries_total: int
    deliveries: list[dict[str, Any]]


class LogQuery(Asked, frozen=True):
    """Which part of a log."""

    cursor: Cursor | None = None
    limit: Limit = 100


class Entry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that happened to a run."""

    number: int
    at: datetime
    event: str
    step: int | None = None
    node: str | None = None
    context: Any = None
    added: Any = None
    error: str | None = None


class Log(Struct, frozen=True):
    """A page, the oldest first."""

    entries: list[Entry]
    next_cursor: str | None


class ProgressQuery(Asked, frozen=True):
    """What is known already."""

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
    """An event for a run, kept for the node that waits for it."""

    event: Text
    data: Annotated[Json, Meta(description="What it says.")] = field(default_factory=dict)
