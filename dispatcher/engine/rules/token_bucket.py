"""The token bucket: how many may go now, and when the next may."""

from msgspec import Struct

# In any window of a second a bucket lets through its rate and its size; a provider counts such windows. Without a burst
# of its own the size is this share of a second's worth: enough for a loop that wakes every few milliseconds.
BURST_SHARE = 0.02


def _size(rate: float, burst: float) -> float:
    return max(burst or rate * BURST_SHARE, 1.0)


class Bucket(Struct):
    """Filled at `rate` tokens a second up to `burst`; a rate of 0 is no limit. Time is handed in, in seconds."""

    rate: float
    burst: float
    level: float
    filled_at: float
    closed_until: float = float("-inf")

    @classmethod
    def full(cls, rate: float, burst: float, now: float) -> "Bucket":
        """A full bucket. It holds one token at least."""
        size = _size(rate, burst)
        return cls(rate, size, size, now)

    def _fill(self, now: float) -> None:
        if self.filled_at < self.closed_until:
            self._fill_to(min(now, self.closed_until), 1.0)
        self._fill_to(now, self.burst)

    def _fill_to(self, now: float, size: float) -> None:
        if now > self.filled_at:
            self.level = max(self.level, min(size, self.level + (now - self.filled_at) * self.rate))
            self.filled_at = now

    def take(self, now: float, wanted: int) -> int:
        """Take up to `wanted` whole tokens and say how many it were."""
        if now < self.closed_until:
            return 0
        if self.rate <= 0:
            return wanted
        self._fill(now)
        # A clock's rounding must not keep a whole token back for ever.
        granted = min(wanted, int(self.level + 1e-9))
        self.level -= granted
        return granted

    def give_back(self, tokens: int) -> None:
        """Tokens of calls that were not begun."""
        self.level = min(self.burst, self.level + tokens)

    def wait(self, now: float, wanted: int = 1) -> float:
        """Seconds until `wanted` tokens (a bucketful at most) can be taken; 0 where they can be now."""
        closed = max(0.0, self.closed_until - now)
        if self.rate <= 0:
            return closed
        self._fill(now)
        # What it will have when it opens: see `close`.
        level = max(self.level, min(1.0, self.level + closed * self.rate))
        return closed + max((min(float(wanted), self.burst) - level) / self.rate, 0.0)

    def usable_within(self, now: float, within: float) -> float:
        """Tokens that can be used within so many seconds: infinite without a limit."""
        open_for = within - max(0.0, self.closed_until - now)
        if open_for <= 0:
            return 0.0
        if self.rate <= 0:
            return float("inf")
        self._fill(now)
        return self.level + open_for * self.rate

    def close(self, now: float, seconds: float) -> None:
        """A provider asked for a pause: nothing goes until it is over, and then no stored-up burst."""
        self.closed_until = max(self.closed_until, now + seconds)
        self.level = min(self.level, 1.0)

    def tune(self, now: float, rate: float, burst: float) -> None:
        """Another rate and size from now on; what is in the bucket stays, as far as it fits."""
        self._fill(now)
        was_unlimited = self.rate <= 0
        self.rate, self.burst = rate, _size(rate, burst)
        self.level = self.burst if was_unlimited else min(self.level, self.burst)
