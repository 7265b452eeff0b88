"""Models of workflows: queries, definitions and answers."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct, field, structs

from dispatcher.base.errors import Fault
from dispatcher.http.models import BEGUN, ENDED, VERSION_MAX, Asked, Json, Limit, LongCursor, ShortText, page_model

# One transaction saves them all.
DEFINITIONS_MAX = 2_000


def _of(schema: str) -> Meta:
    """JSON with a schema in the API's document; what reads it says what is wrong."""
    return Meta(extra_json_schema={"$ref": f"#/components/schemas/{schema}"})


class Definition(Asked, frozen=True, kw_only=True):
    """A workflow as people write it: a graph (entryNodeId, nodes, edges), or a list of steps."""

    name: ShortText
    description: str | None = None
    entry_node_id: str | None = field(default=None, name="entryNodeId")
    nodes: list[Annotated[Json, _of("WorkflowNode")]] | None = None
    edges: list[Annotated[Json, _of("WorkflowEdge")]] | None = None
    steps: list[Annotated[Json, _of("WorkflowStep")]] | None = None
    required_fields: list[str] | None = None
    max_retries: int | None = None
    timeout_seconds: float | None = None
    visibility_timeout: float | None = None


_Many = Annotated[list[Annotated[Json, _of("WorkflowDefinition")]], Meta(min_length=1, max_length=DEFINITIONS_MAX)]


class Compare(Asked, frozen=True):
    """Definitions that are compared with what is stored; nothing is saved."""

    workflows: _Many


class Definitions(Compare, frozen=True):
    """Definitions that are saved, all or none."""

    activate: Annotated[bool, Meta(description="Whether they take triggers from now on.")] = False


class WorkflowQuery(Asked, frozen=True):
    """A filter and page of workflows."""

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


Workflows = page_model("Workflows", "workflows", Workflow, "A page, by name.")


class Version(Struct, frozen=True, kw_only=True):
    """A version in short."""

    number: int
    total_steps: int
    author: str
    created_at: datetime


class WorkflowAction(Struct, frozen=True, kw_only=True):
    """An action on a workflow."""

    at: datetime
    version: int | None
    actor: str
    action: str


class Way(Struct, frozen=True, omit_defaults=True):
    """An edge: the node that it leads to, and the condition on which it is taken."""

    to: str
    condition: str | None = None


class Step(Struct, frozen=True):
    """A node: its place in the definition, what it is called, what it does in a few words, and where it leads to."""

    step: int
    node: str
    what: str
    leads_to: Sequence[Way] = ()


class VersionQuery(Asked, frozen=True):
    """The number of a version."""

    version: Annotated[int, Meta(ge=1, le=VERSION_MAX)] | None = None


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
    """The version that has the definition, and whether it is new."""

    name: str
    version: int
    created: bool
    active: bool
    total_steps: int


class SavedWorkflows(Struct, frozen=True):
    """In the order in which they were given."""

    workflows: list[SavedWorkflow]


class StoredWorkflow(Struct, frozen=True):
    """The newest version that is stored under a name."""

    version: int
    active: bool
    definition: Json


class ComparedWorkflow(Struct, frozen=True, kw_only=True):
    """The faults of a definition, or what is stored under its name and whether definition and plan are the same."""

    name: str | None = None
    total_steps: int = 0
    stored: StoredWorkflow | None = None
    same: bool = False
    faults: Sequence[Fault] = ()


class ComparedWorkflows(Struct, frozen=True):
    """In the order in which they were given."""

    workflows: list[ComparedWorkflow]


class Switched(Struct, frozen=True):
    """The result of an action: done, same or deleted."""

    name: str
    answer: str


_WORKFLOW = Workflow(name="order_shipped", active=True, version=3, total_steps=1, author="key ann", created_at=BEGUN)
WORKFLOWS = Workflows([_WORKFLOW], next_cursor=None)
WHOLE_WORKFLOW = WholeWorkflow(
    **structs.asdict(_WORKFLOW),
    definition={"name": "order_shipped", "entryNodeId": "mail", "nodes": [], "edges": []},
    latest=3,
    required_fields=["order"],
    reads=["order.id", "customer.email"],
    templates=[],
    steps=[Step(1, "mail", "email to {{ customer.email }}", [Way("later", "order.total > 500")])],
    graph="● mail  email to {{ customer.email }}\n",
    mermaid="flowchart TD\n",
    versions=[Version(number=3, total_steps=1, author="key ann", created_at=BEGUN)],
    actions=[WorkflowAction(at=ENDED, version=3, actor="key ann", action="activate")],
)
SAVED_WORKFLOW = SavedWorkflow("order_shipped", 3, created=True, active=True, total_steps=1)
SAVED_WORKFLOWS = SavedWorkflows([SAVED_WORKFLOW])
_STORED = StoredWorkflow(2, active=True, definition={"name": "order_shipped", "entryNodeId": "mail", "nodes": []})
COMPARED_WORKFLOWS = ComparedWorkflows(
    [
        ComparedWorkflow(name="order_shipped", total_steps=1, stored=_STORED),
        ComparedWorkflow(faults=[Fault("$.nodes[0].type", "there is no type or channel emial")]),
    ]
)
SWITCHED = Switched("order_shipped", "done")
