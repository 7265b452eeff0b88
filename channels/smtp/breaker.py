"""The breaker: after some failures in a row nothing is tried for a while. Time is handed in, in seconds."""

# What a wait grows to at most.
WAIT_SECONDS_MAX = 600.0


class Breaker:
    """Counts failed connections to one host. After the wait a single attempt shows whether the host is back."""

    def __init__(self, failures_max: int, seconds: float) -> None:
        self._failures_max = failures_max
        self._first = seconds
        self._seconds = seconds
        self._failures = 0
        self._until = float("-inf")
        self.words = ""

    def wait(self, now: float) -> float:
        """For how long nothing is to be tried; 0 where it may be."""
        return max(0.0, self._until - now)

    def failed(self, now: float, words: str, final: bool) -> None:
        """A connection failed. `final` says that another try will fail too, until a setting is changed."""
        self._failures += 1
        self.words = words
        if final or self._failures >= self._failures_max:
            self._until = now + self._seconds
            self._seconds = min(self._seconds * 2, WAIT_SECONDS_MAX)

    def succeeded(self) -> None:
        self._failures = 0
        self._seconds = self._first
        self._until = float("-inf")
