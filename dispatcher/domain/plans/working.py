"""How long a run has worked: the time in which deliveries were under way, what was held left out."""

from collections.abc import Sequence
from typing import Final

from dispatcher.domain.plans.run import Sent, State

# A held delivery is nobody's work: while there is one, the deadline is looked at no more often than this.
HELD_LOOK_SECONDS: Final = 60.0


class Working:
    """The time of one walk."""

    __slots__ = ("_held_seconds", "_is_held", "_now", "_seconds_max", "since", "worked_seconds")

    def __init__(self, state: State, now: float, seconds_max: float | None) -> None:
        self._now = now
        self._seconds_max = seconds_max
        self._held_seconds = 0.0
        self._is_held = False
        self.since = state.working_since
        self.worked_seconds = state.worked_seconds

    def ended(self, sents: Sequence[Sent]) -> None:
        """A node's deliveries are over: what they were held is taken off what was worked."""
        if self.since is not None:
            held = max(one.held_seconds for one in sents)
            self.worked_seconds -= min(held, self._now - self.since)

    def under_way(self, sents: Sequence[Sent]) -> None:
        """A node's deliveries are not over."""
        for one in sents:
            self._held_seconds = max(self._held_seconds, one.held_seconds)
            self._is_held = self._is_held or one.held

    def stop(self) -> None:
        """Nothing is under way any more, or it has been paused."""
        if self.since is not None:
            self.worked_seconds += max(0.0, self._now - self.since)
            self.since = None

    def go_on(self) -> None:
        """Something is under way."""
        if self.since is None:
            self.since = self._now

    def deadline(self) -> float | None:
        """When it has worked for too long; None where that is never, or nothing is under way."""
        if self._seconds_max is None or self.since is None:
            return None
        found = self.since + self._seconds_max - self.worked_seconds + self._held_seconds
        return max(found, self._now + HELD_LOOK_SECONDS) if self._is_held else found
