"""Sweeping: something that is done to everything that a filter matches, by the page, as far as one request goes.

What a sweep means is what there was when it began: its cursor keeps that time and its place, so that each is met once,
also one to which it cannot be done, and one that has failed again meanwhile.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence

from dispatcher.api.sweep_models import Refused, Swept

# One statement: its rows stay locked for some 100 ms.
PAGE = 500
GOES_ON = "Where the answer has a `next_cursor` there are more: the same request with it as `cursor` goes on."


async def sweep(
    ids: Sequence[int], act: Callable[[Sequence[int]], Awaitable[Iterable[Refused | None]]], next_cursor: str | None
) -> Swept:
    """Do it to these, page by page; `act` answers for each why it was not done."""
    refused: list[Refused] = []
    for start in range(0, len(ids), PAGE):
        refused += [one for one in await act(ids[start : start + PAGE]) if one is not None]
    return Swept(done=len(ids) - len(refused), not_done=len(refused), refused=refused, next_cursor=next_cursor)
