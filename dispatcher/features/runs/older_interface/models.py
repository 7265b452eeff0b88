"""Models of the older interface: what it takes, by action, and what it answers in its envelope."""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from dispatcher.http.models import Asked, Json


class Enqueue(Asked, frozen=True):
    """A request whose action is not known yet."""

    action: str
    payload: Json = field(default_factory=dict)


class ToEnqueue(Asked, frozen=True):
    """The payload of `enqueue`: a workflow and its input."""

    workflow: Annotated[str, Meta(min_length=1)]
    data: Annotated[Json, Meta(description="What its workflow reads.")]
    correlation_id: Annotated[
        Annotated[str, Meta(max_length=255)] | None, Meta(description="It starts one run; the second one gets that.")
    ] = None


class ToLookAt(Asked, frozen=True):
    """The payload of `status`: a run."""

    execution_id: Annotated[int | str, Meta(description="As enqueue has answered it, or as a number.")]


class Enqueuing(Asked, frozen=True):
    """Trigger a workflow."""

    action: Literal["enqueue"]
    payload: ToEnqueue


class Looking(Asked, frozen=True):
    """Ask about a run."""

    action: Literal["status"]
    payload: ToLookAt


class Asking(Asked, frozen=True):
    """Ask for the health of the service."""

    action: Literal["health"]
    payload: Json = field(default_factory=dict)


class Enqueued(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The run of a trigger; a duplicate has the status of the first run, and a message."""

    execution_id: str
    workflow_name: str
    status: Literal["queued", "pending", "running", "completed", "failed", "cancelled"]
    total_steps: int
    message: str | None = None


class Execution(Struct, frozen=True, kw_only=True):
    """A run as `workflow_executions` has it. Steps are counted from 0."""

    id: str
    workflow_name: str
    workflow_version: int
    status: Literal["pending", "running", "completed", "failed", "cancelled"]
    current_step: int
    total_steps: int
    input_payload: Any
    context: Any
    error_message: str | None
    error_step: str | None
    retry_count: int
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    correlation_id: str | None
    triggered_by: str


class Health(Struct, frozen=True):
    """The service answers."""

    status: Literal["healthy"]
    timestamp: datetime


class Envelope(Struct, frozen=True):
    """The envelope of every answer."""

    success: bool
    data: Any


ENVELOPE = Envelope(
    success=True,
    data=Enqueued(execution_id="23", workflow_name="order_shipped", status="queued", total_steps=4),
)
