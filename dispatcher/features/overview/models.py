"""Models of the overview: what goes on, in a workspace and in the whole system."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from dispatcher.features.pauses.models import PAUSE, Pause
from dispatcher.http.models import BEGUN

# Counts go no further.
COUNT_MAX = 10_000
# The minutes that are shown, and those that are kept.
SHOWN_SECONDS = 3_600
KEPT_SECONDS = 7_200


class Minute(Struct, frozen=True):
    """How many deliveries a minute ended in one way."""

    at: Annotated[int, Meta(description="The minute that begins then, in seconds since 1970.")]
    channel: str
    lane: str
    outcome: Annotated[str, Meta(description="succeeded, failed, skipped, held, or again: it will be tried again.")]
    deliveries: int


class HeldChannel(Struct, frozen=True):
    """Held deliveries of a channel."""

    channel: str
    deliveries: Annotated[int, Meta(description="Counted to 10,000 over all channels.")]
    oldest: datetime


class DeadCounts(Struct, frozen=True):
    """Dead letters, each counted to 10,000."""

    runs: int
    deliveries: int
    jobs: int


class LaneBacklog(Struct, frozen=True):
    """What is due in a lane."""

    channel: str
    lane: str
    deliveries: Annotated[int, Meta(description="Counted to 10,000.")]
    oldest_seconds: float


class Replica(Struct, frozen=True, kw_only=True):
    """A dispatcher that has not been fenced."""

    epoch: Annotated[str, Meta(description="Its number, which has 63 bits.")]
    name: str
    version: str
    started_at: datetime
    channels: list[str]
    yielded: Annotated[list[str], Meta(description="Channels that it leaves to replicas with another provider.")]
    unready: Annotated[list[str], Meta(description="Channels without a connection to their provider.")]
    lease_seconds: float
    beat_seconds: Annotated[float, Meta(description="How long ago it was heard of.")]


class System(Struct, frozen=True, kw_only=True):
    """What goes on in all workspaces, for operators."""

    throughput: list[Minute]
    backlog: list[LaneBacklog]
    replicas: list[Replica]
    lacks: Annotated[list[str], Meta(description="What the configuration lacks.")]


class Overview(Struct, frozen=True, kw_only=True):
    """What goes on."""

    at: datetime
    throughput: list[Minute]
    held: list[HeldChannel]
    dead: DeadCounts
    pauses: list[Pause]
    system: Annotated[System | None, Meta(description="For keys of the operators' workspace.")]


_MINUTE = Minute(1_896_076_800, "email", "normal", "succeeded", 17_160)
OVERVIEW = Overview(
    at=BEGUN,
    throughput=[_MINUTE],
    held=[HeldChannel("email", 214, BEGUN)],
    dead=DeadCounts(2, 37, 0),
    pauses=[PAUSE],
    system=System(
        throughput=[_MINUTE],
        backlog=[LaneBacklog("email", "normal", 31, 1.8)],
        replicas=[
            Replica(
                epoch="8815",
                name="dispatcher-0",
                version="1.0.0",
                started_at=BEGUN,
                channels=["email"],
                yielded=[],
                unready=[],
                lease_seconds=10.0,
                beat_seconds=0.4,
            )
        ],
        lacks=["voice captures: nothing leaves this machine"],
    ),
)
