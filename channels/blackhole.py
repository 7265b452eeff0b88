"""The blackhole: accepts every message at once and stores none. For load tests."""

from collections.abc import Sequence

from channels.contract import Accepted, BaseChannel, Envelope, Report, unexpired


class Blackhole(BaseChannel):
    """Accepts everything."""

    async def deliver(self, batch: Sequence[Envelope], report: Report) -> None:
        for envelope in unexpired(batch, report):
            report(envelope, Accepted(f"blackhole-{envelope.delivery_id}"))
