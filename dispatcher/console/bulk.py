"""Bulk actions of the console: an action on everything that a filter matches, through all pages of its endpoint."""

import time
from collections.abc import Mapping, Sequence

from msgspec import Struct

from dispatcher.console.rendering import plural
from dispatcher.console.visit import Visit
from dispatcher.http.bulk import NotDone, Swept
from dispatcher.http.endpoints import Endpoint

# Less than a request may take, so that its visitor is told how far it came.
SECONDS_MAX = 8.0
REFUSED_SHOWN_MAX = 5


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
