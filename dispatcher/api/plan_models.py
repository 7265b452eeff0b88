"""Models of plans: what is asked about a trigger, and what it would come to."""

from datetime import UTC, datetime
from typing import Annotated

from msgspec import Meta, Struct, field

from dispatcher.api.models import Json, Text
from dispatcher.api.run_models import NewTrigger

# More than a definition has nodes.
ASSUMED_MAX = 1_000


class NewPlan(NewTrigger, frozen=True):
    """What a trigger would begin with, and what is taken for granted of what is not known before."""

    assume: Annotated[
        dict[Text, Json],
        Meta(
            max_length=ASSUMED_MAX, description="By node: what its function answers, or its event brings. Else made up."
        ),
    ] = field(default_factory=dict)


class PlannedMessage(Struct, frozen=True, kw_only=True):
    """One delivery that would be written, and what its provider would be given; or why it would not."""

    channel: str
    recipient: str
    template: str | None
    version: int | None
    locale: str | None
    parts: dict[str, str]
    bytes: Annotated[int, Meta(description="Of all parts.")]
    rendered: Annotated[bool, Meta(description="Of very many the first ones are; the others would say the same.")]
    skipped: Annotated[str | None, Meta(description="Why it would not be sent.")]
    error: Annotated[str | None, Meta(description="Why it cannot be rendered.")]


class PlannedStep(Struct, frozen=True, kw_only=True):
    """A node that would be visited; or, `skipped`, one that no branch leads to."""

    step: int
    node: str
    kind: str
    skipped: bool
    at: datetime
    until: Annotated[datetime | None, Meta(description="When it goes on, where that is later.")]
    leads_to: list[str]
    assumed: Annotated[str | None, Meta(description="What is taken for granted.")]
    depends_on: Annotated[list[str], Meta(description="Nodes whose results it reads, which are made up.")]
    error: str | None
    messages: list[PlannedMessage]


class PlannedRun(Struct, frozen=True, kw_only=True):
    """What a trigger would come to: a run, or the one that its key has started already."""

    workflow: str
    version: int
    duplicate_of: Annotated[int | None, Meta(description="The run that holds the key: nothing would be started.")]
    at: Annotated[datetime, Meta(description="When it would be triggered: now.")]
    fails_at: Annotated[str | None, Meta(description="The node that the run would fail at.")]
    steps: list[PlannedStep]


_AT = datetime(2030, 1, 31, 8, 0, 0, tzinfo=UTC)
EXAMPLES: tuple[Struct, ...] = (
    PlannedRun(
        workflow="order_shipped",
        version=3,
        duplicate_of=None,
        at=_AT,
        fails_at=None,
        steps=[
            PlannedStep(
                step=0,
                node="mail",
                kind="send",
                skipped=False,
                at=_AT,
                until=None,
                leads_to=[],
                assumed="each message is sent",
                depends_on=[],
                error=None,
                messages=[
                    PlannedMessage(
                        channel="email",
                        recipient="ann@example.org",
                        template="order_shipped",
                        version=2,
                        locale="en",
                        parts={"subject": "Order 17 is on its way"},
                        bytes=22,
                        rendered=True,
                        skipped=None,
                        error=None,
                    )
                ],
            )
        ],
    ),
)
