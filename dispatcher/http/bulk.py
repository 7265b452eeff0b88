"""Bulk actions: an action on everything that a filter matches, by the page, as far as one request goes.

It is about what existed when it began: its cursor has that time and its place, so that each row is met once, also one
to which the action cannot be done, and one that has failed again meanwhile.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Annotated

from msgspec import Meta, Struct

# One statement: its rows stay locked for some 100 ms.
PAGE = 500
AT_ONCE_MAX = 2_000
GOES_ON = "Where the answer has a `next_cursor` there are more: the same request with it as `cursor` goes on."

AtOnce = Annotated[int, Meta(ge=1, le=AT_ONCE_MAX, description="To how many with this request, at most.")]


class NotDone(Struct, frozen=True):
    """A row on which the action was not done, with the reason."""

    id: int
    answer: str
    message: str


class Swept(Struct, frozen=True, kw_only=True):
    """How far it came. With next_cursor there is more: the same request with it as cursor goes on from there."""

    done: int
    not_done: int
    refused: Annotated[list[NotDone], Meta(description="Each of those to which it was not done.")]
    next_cursor: str | None


SWEPT = Swept(
    done=499,
    not_done=1,
    refused=[NotDone(19, "held", "delivery 19 is held: a call was begun and nobody knows how it ended")],
    next_cursor="c3dlZXAgMTkgMTg5NjEw",
)


async def sweep(
    ids: Sequence[int], act: Callable[[Sequence[int]], Awaitable[Iterable[NotDone]]], next_cursor: str | None
) -> Swept:
    """Act on these rows, page by page; `act` returns those of a page to which it was not done, and why."""
    refused: list[NotDone] = []
    for start in range(0, len(ids), PAGE):
        refused += await act(ids[start : start + PAGE])
    return Swept(done=len(ids) - len(refused), not_done=len(refused), refused=refused, next_cursor=next_cursor)
