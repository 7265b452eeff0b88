"""How long a run has worked: the time in which deliveries were under way, what was held left out."""

from collections.abc import Sequence
from typing import Final

from dispatcher.plans.walk.run import DeliveryResult, State

# While a delivery is held, the deadline is checked no more often than this.
HELD_LOOK_SECONDS: Final = 60.0


class Working:
    """The time of one walk. `since` is set while something is under way."""

    def __init__(self, state: State, now: float, seconds_max: float | None) -> None:
        self._now = now
        self._seconds_max = seconds_max
        self._has_ended = False
        self._held_seconds = 0.0
        self._is_held = False
        self.since = state.working_since
        self.worked_seconds = state.worked_seconds

    def see(self, sents: Sequence[DeliveryResult], *, ended: bool) -> None:
        """The deliveries of one node, over or not."""
        self._has_ended = self._has_ended or ended
        for one in sents:
            self._held_seconds = max(self._held_seconds, one.held_seconds)
            if one.held:
                self._is_held = True

    def settle(self, *, is_working: bool) -> None:
        """Count what was worked, at the end of a walk; what goes on is counted from here on."""
        if self.since is None:
            self.since = self._now if is_working else None
        elif self._has_ended or not is_working:
            elapsed = max(0.0, self._now - self.since)
            self.worked_seconds += elapsed - min(self._held_seconds, elapsed)
            self.since = self._now if is_working else None

    def deadline(self) -> float | None:
        """When it has worked for too long; None where that is never, or nothing is under way."""
        if self._seconds_max is None or self.since is None:
            return None
        held = min(self._held_seconds, max(0.0, self._now - self.since))
        found = self.since + self._seconds_max - self.worked_seconds + held
        return max(found, self._now + HELD_LOOK_SECONDS) if self._is_held else found
