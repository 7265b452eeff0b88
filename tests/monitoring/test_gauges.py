"""The gauges of what stands in the database: they say what was written, and stop counting at a bound."""

import asyncio

import pytest

from dispatcher.base.metrics import Metrics
from dispatcher.db.database import Database
from dispatcher.engine.rules.life import Failed
from dispatcher.features.dead_letters import store as dead_letters
from dispatcher.features.runs import store as runs
from dispatcher.gauges import Gauges
from tests.support import flows
from tests.support.deployed import Campaigns
from tests.support.metering import sample
from tests.support.scene import Connection, Scene

PAGE = 100
SECONDS_MAX = 10.0


@pytest.fixture
def metrics() -> Metrics:
    """What is measured."""
    return Metrics()


async def test_runs_that_are_due_are_counted_and_the_oldest_is_timed(
    connection: Connection, database: Database, metrics: Metrics
) -> None:
    await flows.put(connection)
    for _ in range(3):
        await flows.trigger(connection)
    await connection.execute("UPDATE dispatcher.runs SET lane = 0, available_at = now() - interval '90 s'")
    await flows.trigger(connection)
    await connection.execute("UPDATE dispatcher.runs SET available_at = now() + interval '1 h' WHERE lane <> 0")
    await Gauges(metrics)(database, PAGE)
    assert [sample(metrics.runs_due.labels(lane)) for lane in ("transactional", "normal", "bulk")] == [3, 0, 0]
    assert sample(metrics.runs_due_age.labels("transactional")) >= 90
    assert sample(metrics.runs_due_age.labels("normal")) == 0
    assert [one.runs for one in await runs.due(database, 2)] == [2, 0, 0]


async def test_open_campaigns_are_counted_until_they_end(
    connection: Connection, database: Database, metrics: Metrics
) -> None:
    run = await Campaigns(connection).deployed(5)
    await Gauges(metrics)(database, PAGE)
    assert sample(metrics.campaign_jobs_waiting) == 1
    assert sample(metrics.campaign_deliveries.labels("intended")) == 5
    assert sum(sample(metrics.campaign_runs.labels(status)) for status in ("queued", "running")) == 1
    await connection.execute("SELECT dispatcher.cancel_campaign_run($1, 'enough')", run)
    await connection.execute(
        "UPDATE dispatcher.campaign_runs SET status = 'completed', finished_at = now() WHERE id = $1", run
    )
    await Gauges(metrics)(database, PAGE)
    assert sample(metrics.campaign_deliveries.labels("intended")) == 0
    assert sum(sample(metrics.campaign_runs.labels(status)) for status in ("queued", "running")) == 0


async def test_dead_letters_are_counted_by_kind_up_to_a_bound(
    scene: Scene, database: Database, metrics: Metrics
) -> None:
    items = await scene.marked(3)
    await scene.flush(*((item, Failed("no such number")) for item in items))
    await Gauges(metrics)(database, PAGE)
    assert sample(metrics.dead_letters.labels("delivery")) == 3
    assert sample(metrics.dead_letters.labels("run")) == 0
    assert (await dead_letters.counts(database, 2))["delivery"] == 2
    await scene.value("SELECT dispatcher.discard_delivery($1)", items[0].id)
    await Gauges(metrics)(database, PAGE)
    assert sample(metrics.dead_letters.labels("delivery")) == 2


async def test_what_holds_up_the_database_is_seen(
    connection: Connection, rival: Connection, database: Database, metrics: Metrics
) -> None:
    async with rival.transaction():
        await rival.execute("SELECT pg_current_xact_id()")
        began = await rival.fetchval("SELECT now()")
        await Gauges(metrics)(database, PAGE)
        held: float = await connection.fetchval("SELECT extract(epoch FROM clock_timestamp() - $1)::float8", began)
        assert 0 < sample(metrics.oldest_transaction) <= held
        assert sample(metrics.connections.labels("idle_in_transaction")) >= 1
    assert sample(metrics.connections_max) == int(await connection.fetchval("SHOW max_connections"))
    assert sample(metrics.database_bytes) > 1_000_000
    before = sample(metrics.table_bytes.labels("job_queue"))
    await Campaigns(connection).deployed(5)
    await connection.execute("ANALYZE dispatcher.job_queue")
    await Gauges(metrics)(database, PAGE)
    assert sample(metrics.table_bytes.labels("job_queue")) > before


async def test_a_table_that_somebody_has_locked_is_not_waited_for(
    rival: Connection, database: Database, metrics: Metrics
) -> None:
    async with rival.transaction():
        await rival.execute("LOCK TABLE dispatcher.captured_messages IN ACCESS EXCLUSIVE MODE")
        async with asyncio.timeout(SECONDS_MAX):
            await Gauges(metrics)(database, PAGE)
    assert sample(metrics.table_rows.labels("captured_messages", "live")) == 0
