"""Models of dry runs: a planned trigger, and an example of its answer."""

from typing import Annotated

from msgspec import Meta, field

from dispatcher.features.runs.models import NewTrigger
from dispatcher.http.models import BEGUN, Json, Text
from dispatcher.plans.simulation.planned import PlannedMessage, PlannedRun, PlannedStep

# More than a definition has nodes.
ASSUMED_MAX = 1_000


class NewPlan(NewTrigger, frozen=True):
    """A trigger that is only planned, with assumed answers and events."""

    assume: Annotated[
        dict[Text, Json],
        Meta(
            max_length=ASSUMED_MAX, description="By node: what its function answers, or its event brings. Else made up."
        ),
    ] = field(default_factory=dict)


PLANNED_RUN = PlannedRun(
    workflow="order_shipped",
    version=3,
    duplicate_of=None,
    at=BEGUN,
    fails_at=None,
    steps=[
        PlannedStep(
            step=0,
            node="mail",
            kind="send",
            skipped=False,
            at=BEGUN,
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
)
