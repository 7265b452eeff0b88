"""Shares: how much of a limit that is for all replicas together this one may use, so that the sum is never over."""

from msgspec import Struct

# A newcomer waits this many heartbeats before it takes its share: by then each of the others has seen it or, having
# seen nothing for a shorter time, uses none.
NEWCOMER_BEATS = 2.0
STALE_BEATS = 1.5


class Shares(Struct):
    """The number of replicas as one instance knows it."""

    heartbeat_seconds: float
    joined_at: float
    seen_at: float = float("-inf")
    instances: int = 0
    alone_at_first: bool = False

    def see(self, asked_at: float, instances: int) -> None:
        """So many were alive when we asked, ourselves among them."""
        if self.instances == 0:
            # Instances that join after us wait for us; there were none before us.
            self.alone_at_first = instances == 1
        self.seen_at = asked_at
        self.instances = instances

    def current(self, now: float) -> float:
        """The share from 0 to 1."""
        if now - self.seen_at > STALE_BEATS * self.heartbeat_seconds or not self.instances:
            return 0.0
        if not self.alone_at_first and now - self.joined_at < NEWCOMER_BEATS * self.heartbeat_seconds:
            return 0.0
        return 1.0 / self.instances
