"""The gauges of what stands in the database: due runs, open campaigns, dead letters, and the database itself."""

from collections.abc import Mapping

from dispatcher.base.metrics import Metrics
from dispatcher.base.series import Gauge
from dispatcher.db.database import Database
from dispatcher.db.health import vitals
from dispatcher.features.campaigns import expansion
from dispatcher.features.dead_letters import store as dead_letters
from dispatcher.features.runs import store as runs

# More are counted as this many: none of the gauges is worth the scan of a million rows.
RUNS_COUNTED_MAX = 100_000
JOBS_COUNTED_MAX = 10_000
DEAD_COUNTED_MAX = 10_000


class Gauges:
    """Reads them, in each round of the janitor. Every replica shows the same, so a query takes the greatest."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    async def __call__(self, database: Database, _page: int) -> None:
        """Read all once."""
        await self._measure_features(database)
        await self._measure_database(database)

    async def _measure_features(self, database: Database) -> None:
        metrics = self._metrics
        for one in await runs.due(database, RUNS_COUNTED_MAX):
            metrics.runs_due.labels(one.lane.name.lower()).set(one.runs)
            metrics.runs_due_age.labels(one.lane.name.lower()).set(one.age_seconds)
        campaigns = await expansion.progress(database, JOBS_COUNTED_MAX)
        metrics.campaign_jobs_waiting.set(campaigns.jobs_waiting)
        _set(metrics.campaign_runs, campaigns.runs)
        _set(metrics.campaign_deliveries, campaigns.deliveries)
        _set(metrics.dead_letters, await dead_letters.counts(database, DEAD_COUNTED_MAX))

    async def _measure_database(self, database: Database) -> None:
        metrics = self._metrics
        now = await vitals.vitals(database)
        metrics.database_bytes.set(now.bytes)
        metrics.connections_max.set(now.connections_max)
        metrics.lock_waits.set(now.lock_waits)
        metrics.oldest_transaction.set(now.oldest_transaction_seconds)
        metrics.deadlocks.set(now.deadlocks)
        states = ("active", "idle", "idle_in_transaction", "other")
        _set(metrics.connections, {state: getattr(now, state) for state in states})
        for table in await vitals.tables(database):
            metrics.table_bytes.labels(table.name).set(table.bytes)
            metrics.table_rows.labels(table.name, "live").set(table.live)
            metrics.table_rows.labels(table.name, "dead").set(table.dead)
            metrics.table_inserted.labels(table.name).set(table.inserted)


def _set(gauge: Gauge, values: Mapping[str, float]) -> None:
    for label, value in values.items():
        gauge.labels(label).set(value)
