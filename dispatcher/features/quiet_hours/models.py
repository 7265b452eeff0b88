"""Models of the requests and answers about quiet hours."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from dispatcher.http.models import BEGUN, Asked

# Far more than a week of anybody has.
PERIODS_MAX = 16
# What a rule for all channels is called; no channel has this name in the configuration that ships.
ALL = "all"
_HOUR = r"([01][0-9]|2[0-3]):[0-5][0-9]"
Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


class Period(Asked, frozen=True, omit_defaults=True):
    """A time of day, by the clocks of the recipient's time zone. Where it ends before it begins, on the next day."""

    opens: Annotated[str, Meta(pattern=rf"^{_HOUR}$(?!\n)", examples=["21:00"])] = field(name="from")
    closes: Annotated[str, Meta(pattern=rf"^({_HOUR}|24:00)$(?!\n)", examples=["08:00"])] = field(name="to")
    days: (
        Annotated[list[Day], Meta(min_length=1, max_length=7, description="When it begins; every day without them.")]
        | None
    ) = None


class NewQuietHours(Asked, frozen=True):
    """When nothing is sent, or only when something is; one of them at least."""

    quiet: Annotated[list[Period], Meta(max_length=PERIODS_MAX, description="Nothing is sent in these.")] = field(
        default_factory=list
    )
    windows: Annotated[
        list[Period], Meta(max_length=PERIODS_MAX, description="With any, nothing is sent outside them.")
    ] = field(default_factory=list)


class QuietHours(Struct, frozen=True, kw_only=True):
    """The quiet hours of a channel, or of all that have none of their own."""

    channel: Annotated[str, Meta(description="Or `all`.")]
    quiet: list[Period]
    windows: list[Period]
    version: int
    updated_at: datetime
    updated_by: str


class ListedQuietHours(Struct, frozen=True):
    """The quiet hours of the workspace, by channel."""

    quiet_hours: list[QuietHours]


class DeletedQuietHours(Struct, frozen=True):
    """The channel whose quiet hours were deleted."""

    channel: str
    answer: str


QUIET_HOURS = QuietHours(
    channel="sms",
    quiet=[Period("21:00", "08:00")],
    windows=[],
    version=17,
    updated_at=BEGUN,
    updated_by="key ann",
)
LISTED = ListedQuietHours([QUIET_HOURS])
DELETED = DeletedQuietHours("sms", "deleted")
