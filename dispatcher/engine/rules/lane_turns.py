"""The turns of lanes at one bucket: the smaller lane first, but no lane waits for another for long."""

from dispatcher.engine.rules.life import Lane
from dispatcher.engine.rules.rates import Rates

# A lane gives way to a smaller lane that waits for tokens too, but not for longer than this at a time.
LANE_PATIENCE_SECONDS = 1.0


class Turns:
    """The lanes that wait for tokens, and when each lane last got some."""

    def __init__(self) -> None:
        self.queueing: set[Lane] = set()
        self._granted_at: dict[Lane, float] = {}

    def take(self, lane: Lane, wanted: int, rates: Rates, now: float) -> int:
        """Take tokens for a lane; where there are none for it, it waits for its turn."""
        patient = now - self._granted_at.get(lane, float("-inf")) < LANE_PATIENCE_SECONDS
        given_way = patient and any(other < lane for other in self.queueing)
        tokens = 0 if given_way else rates.take(now, wanted)
        if tokens:
            self._granted_at[lane] = now
            self.queueing.discard(lane)
        else:
            self.queueing.add(lane)
        return tokens

    def leave(self, lane: Lane) -> None:
        """A lane has nothing to send any more."""
        self.queueing.discard(lane)
