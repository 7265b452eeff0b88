"""The journal of one walk: the context as each node sees it, what was added to it, and the lines of the log."""

from collections.abc import Collection, Mapping
from typing import Any

from dispatcher.plans.walk.run import Entry, EventName, Run
from dispatcher.plans.walk.walkable import Place


class Journal:
    """The journal of one walk; a quiet one has failures and skips only.

    An addition makes another context, so that logged contexts stay as they were.
    """

    def __init__(self, run: Run, *, is_quiet: bool = False) -> None:
        self._is_quiet = is_quiet
        self._input = run.input
        self._context: dict[str, Any] | None = None
        self.vars = run.state.vars
        self.entries: list[Entry] = []

    def context(self) -> dict[str, Any]:
        """The input with what nodes have added so far."""
        if self._context is None:
            self._context = {**self._input, **self.vars}
        return self._context

    def note(
        self,
        place: Place,
        event: EventName,
        *,
        context: Mapping[str, Any] | None = None,
        added: Mapping[str, Any] | None = None,
        error: str | None = None,
    ) -> None:
        """Log an event of a node, with the context that its texts see, and add its results to the context."""
        if self._is_quiet and event in ("started", "succeeded"):
            return
        self.entries.append(
            Entry(node=place.id, step=place.node.step, event=event, context=context, added=added, error=error)
        )
        if added:
            self.vars = {**self.vars, **added}
            self._context = None

    def remove_starts(self, names: Collection[str]) -> None:
        """Remove the starts of nodes that are to be entered again."""
        self.entries = [one for one in self.entries if one.event != "started" or one.node not in names]
