"""The flusher: writes results in bulk, as fast as Postgres takes them, and never drops one."""

import asyncio
from collections import Counter
from collections.abc import Sequence

import structlog

from dispatcher.base import fault_points
from dispatcher.config.settings import Flush as Settings
from dispatcher.engine.rules.life import Held, Outcome, Result
from dispatcher.engine.store import flushes
from dispatcher.engine.streams import Epoch

log = structlog.get_logger(__name__)

# So many are worth a transaction of their own: their slots and their room are waited for.
ENOUGH = 200


class Flusher:
    """Writes what comes into the inbox. It outlives the actors that fill it, so that their results are not lost."""

    def __init__(self, epoch: Epoch, settings: Settings, walking: asyncio.Event) -> None:
        self._database = epoch.database
        self._inbox = epoch.inbox
        self._tokens = epoch.tokens
        self._lanes = epoch.lanes
        self._metrics = epoch.metrics
        self._clock = epoch.clock
        self._traces = epoch.traces
        self._precedence = epoch.precedence
        self.settings = settings
        # Set when a delivery has ended that a run waits for: the wake itself stands in the database.
        self._walking = walking
        # Open claims in which a delivery is held.
        self._held: set[int] = set()

    async def run(self) -> None:
        """Flush until the inbox is closed and empty."""
        inbox = self._inbox
        while not (inbox.closed and not inbox.waiting):
            if not inbox.waiting:
                inbox.filled.clear()
                await inbox.filled.wait()
            if len(inbox.waiting) < min(ENOUGH, self.settings.batch_max) and not inbox.closed:
                await asyncio.sleep(self.settings.linger_seconds)
            if inbox.waiting:
                await self.run_once()

    async def run_once(self) -> None:
        """Write one batch, however often it takes."""
        results = self._inbox.take(await self._turn())
        # Ids go in order, which is the lock order.
        results.sort(key=lambda result: result[0].id)
        complete = self._tokens.settle(results)
        # A claim in which a delivery is held stays: it names the owner of that delivery.
        self._held.update(item.token for item, outcome in results if type(outcome) is Held)
        spent = [token for token in complete if token not in self._held]
        if fault_points.ARMED:
            fault_points.passing("flush.asked")
        began = self._clock.monotonic()
        with self._metrics.flush_seconds.time():
            fenced = await self._database.persist("flush", lambda: flushes.flush(self._database, results, spent))
        if fault_points.ARMED:
            fault_points.passing("flush.written")
        if self._traces is not None:
            self._traces.ended(results, began)
        self._metrics.flush_size.observe(len(results))
        self._tokens.close(complete)
        self._held.difference_update(complete)
        self._inbox.done(len(results))
        self._lanes.returned(results)
        if any(item.run_id is not None for item, _ in results):
            self._walking.set()
        await self._late(fenced)
        self._count(results)

    async def _turn(self) -> int:
        """Wait for our turn, and return how many results to write. Those of transactional deliveries have it at once:
        until they are written they keep their slots."""
        count = self.settings.batch_max
        if not self._precedence.is_coming():
            return count
        if urgent := self._inbox.put_urgent_first(count):
            return max(urgent, self._precedence.portion(count))
        await self._precedence.give()
        return self._precedence.portion(count)

    async def _late(self, fenced: Sequence[Result]) -> None:
        """Keep what results tell whose claim was no longer ours: their writes are fenced, their evidence is not."""
        for result in fenced:
            item, outcome = result
            became = await self._keep(result)
            if became != "applied":
                self._metrics.fenced_writes.labels(item.channel, became).inc()
                labels = {"channel": item.channel, "outcome": _name(type(outcome)), "became": became}
                log.warning("flush.fenced", delivery_id=item.id, **labels)

    async def _keep(self, result: Result) -> str:
        return await self._database.persist("evidence", lambda: flushes.keep_evidence(self._database, *result))

    def _count(self, results: Sequence[Result]) -> None:
        counts = Counter(
            [(item.tenant_id, item.workspace_id, item.channel, item.lane, type(outcome)) for item, outcome in results]
        )
        for (tenant, _, channel, _, kind), count in counts.items():
            self._metrics.count_outcomes(channel, tenant, _name(kind), count)
        self._metrics.ended.add(
            ((*group[:3], int(group[3]), _name(group[4])), count) for group, count in counts.items()
        )


def _name(outcome: type[Outcome]) -> str:
    return outcome.__name__.lower()
