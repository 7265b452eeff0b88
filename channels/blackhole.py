"""The blackhole: accepts every message at once and keeps none. For load tests."""

from collections.abc import Sequence

from msgspec import Struct

from channels.contract import Accepted, Envelope, NotCalled, Report


class BlackholeOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """There is nothing to set."""


class Blackhole:
    """Accepts everything."""

    idempotency_key_seconds = 0.0
    keyed_recipients: frozenset[str] = frozenset()

    async def prepare(self, count: int) -> None:
        """There is nothing to connect to."""

    async def deliver(self, batch: Sequence[Envelope], report: Report) -> None:
        """Accept each message."""
        for envelope in batch:
            if envelope.licence.expired():
                report(envelope, NotCalled("the licence ran out"))
            else:
                report(envelope, Accepted(f"blackhole-{envelope.delivery_id}"))

    async def close(self) -> None:
        """There is nothing to close."""
