"""The values that a client takes and answers, the same over HTTP and inside a transaction."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct, field

Lane = Literal["transactional", "normal", "bulk"]


class Message(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message to one recipient. A key that exists is not sent again.

    Its text is a `template` of parts, a `body` alone, or a stored template by its name.
    """

    key: str = field(name="idempotency_key")
    channel: str
    to: str = field(name="recipient")
    body: str | None = None
    template: Mapping[str, str] | None = None
    template_name: str | None = None
    locale: str | None = None
    variables: Mapping[str, Any] | None = None
    options: Mapping[str, Any] | None = None
    lane: Lane | None = None
    scheduled_for: datetime | None = None
    expires_at: datetime | None = None
    max_attempts: int | None = None
    topic: str | None = None


class Sent(Struct, frozen=True):
    """The delivery of a key; `duplicate` if it existed before."""

    id: int
    key: str = field(name="idempotency_key")
    duplicate: bool


class Triggered(Struct, frozen=True):
    """The run of a trigger; `duplicate` if its key had started it before."""

    id: int = field(name="execution_id")
    workflow: str = field(name="workflow_name")
    version: int
    total_steps: int
    duplicate: bool


class Enrolled(Struct, frozen=True):
    """The enrolment of a contact in a sequence; `duplicate` if it was in it before."""

    id: int
    status: str
    version: int
    next_step_at: datetime | None
    duplicate: bool


class Deployed(Struct, frozen=True):
    """The run of a campaign's deployment; `duplicate` if its key had made it before."""

    id: int = field(name="run_id")
    campaign: str
    status: str
    intended: int
    jobs: int
    duplicate: bool


class Run(Struct, frozen=True, kw_only=True):
    """A run. Its status is `pending`, `running`, `waiting`, `paused`, `completed`, `failed` or `cancelled`.

    `context` is the `input` with what its nodes have added. `held` counts its deliveries with an unknown outcome.
    """

    id: int = field(name="execution_id")
    workflow: str = field(name="workflow_name")
    version: int
    status: str
    current_steps: tuple[str, ...]
    total_steps: int
    key: str | None = field(name="idempotency_key")
    triggered_by: str
    retry_count: int
    error: str | None
    error_step: str | None
    note: str | None
    input: dict[str, Any]
    context: dict[str, Any]
    held: int
    deliveries_total: int
    available_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def ended(self) -> bool:
        """Whether it is `completed`, `failed` or `cancelled`. A failed one can be replayed."""
        return self.finished_at is not None


class Delivery(Struct, frozen=True, kw_only=True):
    """A delivery. `life` tells apart the states behind the status `queued`; `waits` is why it waits, where known."""

    id: int
    key: str = field(name="idempotency_key")
    channel: str
    to: str = field(name="recipient")
    lane: Lane
    life: str
    status: str
    attempt: int
    max_attempts: int
    run_at: datetime | None
    finished_at: datetime | None
    provider_message_id: str | None
    error: str | None
    waits: str | None
