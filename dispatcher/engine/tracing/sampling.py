"""Sampling: which deliveries are traced. It is decided by the row alone, so that every replica and attempt agrees."""

import hashlib
from collections.abc import Sequence

from dispatcher.engine.rules.life import Claimed

# Spreads ids that follow each other over all of 64 bits (Fibonacci hashing).
_SPREAD = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1
# Where the parts of a traceparent of version 00 are.
_TRACE_ID, _SPAN_ID = slice(3, 35), slice(36, 52)
# The flag "sampled" is the last bit of the last digit.
_SAMPLED = frozenset("13579bdf")


class Sampling:
    """What the caller has sampled is sampled, and what the caller has not is not; of the rest, a share."""

    def __init__(self, ratio: float) -> None:
        # Ids that are spread below this.
        self._below = round(ratio * (1 << 64))

    def sampled(self, batch: Sequence[Claimed]) -> list[int]:
        """Return the positions of those that are traced."""
        below, spread, mask = self._below, _SPREAD, _MASK
        return [
            position
            for position, item in enumerate(batch)
            if (item.id * spread & mask < below if item.traceparent is None else item.traceparent[-1] in _SAMPLED)
        ]


def parent_of(item: Claimed) -> tuple[str, str | None]:
    """Return the trace of a delivery, and the span that has caused it, in hex; None where it begins a trace.

    A trace that begins here is named after the delivery, so that all of its attempts are in it.
    """
    if item.traceparent is not None:
        return item.traceparent[_TRACE_ID], item.traceparent[_SPAN_ID]
    name = "\0".join((item.tenant_id, item.workspace_id, item.idempotency_key, str(item.id), str(item.dated)))
    return hashlib.blake2b(name.encode(errors="replace"), digest_size=16).hexdigest(), None
