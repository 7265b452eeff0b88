"""Models of sweeps: something that is done to everything that a filter matches, a part of it with each request."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from dispatcher.api.models import Asked, Cursor, Reason, ShortText, Text

AT_ONCE_MAX = 2_000
AtOnce = Annotated[int, Meta(ge=1, le=AT_ONCE_MAX, description="To how many with this request, at most.")]


class SweepLetters(Asked, frozen=True, kw_only=True):
    """Which dead letters are meant: all of the kind, or those that every one of these is true of."""

    reason: Reason
    name: Annotated[ShortText | None, Meta(description="A run's workflow, or a delivery's template.")] = None
    channel: Text | None = None
    error: Annotated[Text | None, Meta(description="What stands in its error.")] = None
    since: Annotated[datetime, Meta(description="Failed then or later.", tz=True)] | None = None
    until: Annotated[datetime, Meta(description="Failed before.", tz=True)] | None = None
    cursor: Cursor | None = None
    limit: AtOnce = 500


class SweepHeld(Asked, frozen=True, kw_only=True):
    """Which held deliveries are meant, and what became of them, or that they are sent again."""

    settle_as: Literal["sent", "failed", "requeue"]
    reason: Reason
    channel: Text | None = None
    cursor: Cursor | None = None
    limit: AtOnce = 500


class Refused(Struct, frozen=True):
    """One to which it could not be done, and why."""

    id: int
    answer: str
    message: str


class Swept(Struct, frozen=True, kw_only=True):
    """How far it came. With next_cursor there is more: the same request with it as cursor goes on from there."""

    done: int
    not_done: int
    refused: Annotated[list[Refused], Meta(description="Each of those to which it was not done.")]
    next_cursor: str | None


EXAMPLES: tuple[Struct, ...] = (
    Swept(
        done=499,
        not_done=1,
        refused=[Refused(19, "held", "delivery 19 is held: a call was begun and nobody knows how it ended")],
        next_cursor="c3dlZXAgMTkgMTg5NjEw",
    ),
)
