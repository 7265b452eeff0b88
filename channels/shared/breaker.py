"""The breaker: after some failures in a row nothing is tried for a while. Time is handed in, in seconds."""

# What a wait grows to at most.
WAIT_SECONDS_MAX = 600.0


class Breaker:
    """Counts failures in a row at one host or provider. After the wait a single attempt shows whether it is back."""

    def __init__(self, failures_max: int, seconds: float) -> None:
        self._failures_max = failures_max
        self._first = seconds
        self._seconds = seconds
        # In a row, up to now.
        self.failures = 0
        self._until = float("-inf")
        self.words = ""
        # Its single attempt is under way.
        self.is_probing = False

    def tune(self, failures_max: int, seconds: float) -> None:
        """Other limits from now on; a wait that has begun goes on."""
        if (failures_max, seconds) != (self._failures_max, self._first):
            self._failures_max, self._first, self._seconds = failures_max, seconds, seconds

    def wait(self, now: float) -> float:
        """For how long nothing is to be tried; 0 where it may be."""
        return max(0.0, self._until - now)

    @property
    def is_closed(self) -> bool:
        """Whether nothing is wrong: it was never opened, or a success has closed it."""
        return self._until == float("-inf")

    def probe(self, now: float) -> None:
        """A single attempt is begun after the wait: no other before the first wait is over again, or it succeeds."""
        self._until = now + self._first
        self.is_probing = True

    def failed(self, now: float, words: str, final: bool) -> None:
        """A connection or a call failed. `final`: another try will fail too, until a setting is changed."""
        self.failures += 1
        self.words = words
        self.is_probing = False
        if final or self.failures >= self._failures_max:
            self._until = now + self._seconds
            self._seconds = min(self._seconds * 2, WAIT_SECONDS_MAX)

    def succeeded(self) -> None:
        """Close it."""
        self.failures = 0
        self._seconds = self._first
        self._until = float("-inf")
        self.is_probing = False
