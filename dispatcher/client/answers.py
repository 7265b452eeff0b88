"""What the client is given and what it answers: the same values through every door."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct, field

Lane = Literal["transactional", "normal", "bulk"]


class Message(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message that is to be sent to one recipient. Its key names it: what has a key that exists is not sent again.

    It says what it says by itself, in a `template` of parts or in a `body` alone, or names a stored template.
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
    """The delivery that holds a key now; a duplicate is one that was there before."""

    id: int
    key: str = field(name="idempotency_key")
    duplicate: bool


class Triggered(Struct, frozen=True):
    """The run of a trigger; a duplicate is one that its key had started before."""

    id: int = field(name="execution_id")
    workflow: str = field(name="workflow_name")
    version: int
    total_steps: int
    duplicate: bool


class Run(Struct, frozen=True, kw_only=True):
    """Where a run stands: `pending`, `running`, `waiting`, `paused`, or how it has ended.

    `input` is what it was given, `context` that with what its nodes have added. `held` counts its deliveries whose
    outcome nobody knows.
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
    """Where a delivery stands. `life` tells apart what is `queued` by its status."""

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
