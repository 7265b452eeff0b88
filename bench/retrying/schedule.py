"""The schedule of attempts as the manual states it, written a second time: the program is compared with it."""

from msgspec import Struct

from dispatcher.selftest.ledger import THROTTLE_SECONDS, Faults

# Deliveries that are due a second, and how many of them at the same time: few beside what a process carries, since
# lateness is not to be the length of a queue, and yet 50,000 take no longer than 90 seconds.
DUE_PER_SECOND = 700
DUE_AT_ONCE = 70


class Schedule(Struct, frozen=True):
    """Wait after attempt n: base * 2^(n-1), at most the cap, and up to a share of it more."""

    base_seconds: float = 0.2
    cap_seconds: float = 1.0
    jitter: float = 0.2
    attempts_max: int = 5
    # What the provider asks for; it is waited for exactly, and uses up no attempt.
    throttle_seconds: float = THROTTLE_SECONDS

    def wait(self, attempt: int) -> tuple[float, float]:
        """The shortest and the longest wait after an attempt."""
        shortest = min(self.base_seconds * 2 ** (attempt - 1), self.cap_seconds)
        return shortest, shortest * (1 + self.jitter)

    @property
    def longest_seconds(self) -> float:
        """The longest way from the first attempt to the last."""
        return sum(self.wait(attempt)[1] for attempt in range(1, self.attempts_max))


def faults(seed: int) -> Faults:
    """What happens to a message: nearly a third of the first attempts fail."""
    return Faults(seed, drop=0.004, refuse=0.02, throttle=0.01, retry=0.28)


def due_seconds(number: int, per_second: int = DUE_PER_SECOND) -> float:
    """When a delivery is due, from the beginning: so many a second, some of them at the same time."""
    at_once = min(DUE_AT_ONCE, per_second)
    return number // at_once * (at_once / per_second)
