"""Bulk actions of the console: on the rows that are selected, or on all that a filter matches, page by page."""

import time
from collections.abc import Mapping, Sequence

from msgspec import Struct

from dispatcher.console.rendering import plural
from dispatcher.console.visit import Visit
from dispatcher.http.bulk import NotDone, Swept
from dispatcher.http.cursors import ID_MAX
from dispatcher.http.endpoints import Endpoint
from dispatcher.http.problems import CONFLICT, NOT_FOUND, Problem

# Less than a request may take, so that its visitor is told how far it came.
SECONDS_MAX = 8.0
REFUSED_SHOWN_MAX = 5
SELECTED_MAX = 100


class Total(Struct, frozen=True):
    """How far it came: `is_all` says whether it came to the end."""

    done: int
    not_done: int
    refused: Sequence[NotDone]
    is_all: bool

    @property
    def message(self) -> str:
        """Return it in words."""
        words = f"{plural(self.done, 'row')} done"
        if self.not_done:
            first = "; ".join(one.message for one in self.refused[:REFUSED_SHOWN_MAX])
            words += f", {self.not_done:,} not: {first}"
        return words + ("." if self.is_all else ". There are more: repeat it.")


async def sweep(visit: Visit, endpoint: Endpoint, body: Mapping[str, object]) -> Total:
    """Call a bulk endpoint for each of its pages, as far as there is time."""
    end = time.monotonic() + SECONDS_MAX
    done, not_done, refused = 0, 0, list[NotDone]()
    cursor: str | None = None
    while True:
        found: Swept = await visit.ask(endpoint, body={**body, "cursor": cursor})
        done, not_done = done + found.done, not_done + found.not_done
        refused += found.refused[: REFUSED_SHOWN_MAX - len(refused)]
        cursor = found.next_cursor
        if cursor is None or time.monotonic() > end:
            return Total(done, not_done, refused, cursor is None)


async def each(visit: Visit, endpoint: Endpoint, ids: Sequence[int], body: Mapping[str, object]) -> Total:
    """Call the endpoint of a single row for each of these."""
    refused: list[NotDone] = []
    for one in ids:
        try:
            await visit.ask(endpoint, one, body=body)
        except Problem as problem:
            if problem.kind not in (CONFLICT, NOT_FOUND):
                raise
            refused.append(NotDone(one, problem.kind.title, problem.detail))
    return Total(len(ids) - len(refused), len(refused), refused, is_all=True)


def selected(visit: Visit) -> Sequence[int]:
    """Return the rows of a page that are selected: `id` in the query."""
    found = {int(text) for name, text in visit.asked if name == "id" and text.isascii() and text.isdecimal()}
    return sorted(one for one in found if one <= ID_MAX)[:SELECTED_MAX]


def meant(ids: Sequence[int], filters: Mapping[str, str], noun: str) -> str:
    """Return in words which rows an action is about."""
    if ids:
        return f"{len(ids)} selected {noun}"
    words = ", ".join(f"{name} {text!r}" if name == "error" else f"{name} {text}" for name, text in filters.items())
    return f"all {noun}" + (f" with {words}" if words else "")
