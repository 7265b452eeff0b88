"""The journal of one walk: the context as each node sees it, what was added to it, and the lines of the log."""

from collections.abc import Collection, Mapping
from typing import Any

from dispatcher.plans.walk.run import Entry, EventName, Run
from dispatcher.plans.walk.walkable import Place


class Journal:
    """Nothing in it is ever changed: what is added makes another context, so that what was noted stays as it was."""

    __slots__ = ("_context", "_input", "entries", "vars")

    def __init__(self, run: Run) -> None:
        self._input = run.input
        self._context: dict[str, Any] | None = None
        self.vars = run.state.vars
        self.entries: list[Entry] = []

    def context(self) -> dict[str, Any]:
        """The input with what nodes have added so far."""
        if self._context is None:
            self._context = {**self._input, **self.vars}
        return self._context

    def started(self, place: Place, context: Mapping[str, Any] | None = None) -> None:
        """A node was entered; the context is noted where its texts are rendered with it."""
        self._note(place, "started", context=context)

    def succeeded(self, place: Place, added: Mapping[str, Any] | None = None) -> None:
        """A node has ended well."""
        self._note(place, "succeeded", added=added)
        if added:
            self._add(added)

    def passed(self, place: Place, words: str) -> None:
        """A node has failed, and the run goes on with the words of it."""
        added = {place.error: words}
        self._note(place, "failed", added=added, error=words)
        self._add(added)

    def failed(self, place: Place, words: str) -> None:
        """A node has failed, and the run with it."""
        self._note(place, "failed", error=words)

    def skipped(self, place: Place, words: str | None = None) -> None:
        """A node was come to, or will never be, and does nothing."""
        self._note(place, "skipped", error=words)

    def remove_starts(self, names: Collection[str]) -> None:
        """These are to be entered anew."""
        self.entries = [one for one in self.entries if one.event != "started" or one.node not in names]

    def _add(self, added: Mapping[str, Any]) -> None:
        self.vars = {**self.vars, **added}
        self._context = None

    def _note(
        self,
        place: Place,
        event: EventName,
        context: Mapping[str, Any] | None = None,
        added: Mapping[str, Any] | None = None,
        error: str | None = None,
    ) -> None:
        self.entries.append(
            Entry(node=place.id, step=place.node.step, event=event, context=context, added=added, error=error)
        )
