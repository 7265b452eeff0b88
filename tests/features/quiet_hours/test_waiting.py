"""What waits for quiet hours to end: the time of its run stands still, and a campaign writes on for others."""

import asyncio

from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.engine.rules.life import Claimed
from dispatcher.features.quiet_hours import store
from dispatcher.features.quiet_hours.worker import QuietHoursReader
from tests.features.campaigns.stage import Stage as Campaigns
from tests.features.quiet_hours.test_worker import quiet
from tests.features.runs.stage import Stage
from tests.plans.walks import plan, send
from tests.support.scene import Scene


async def _put_off(scene: Scene, items: list[Claimed]) -> None:
    reader = QuietHoursReader(scene.database, asyncio.Event())
    await store.put(scene.database, Workspace(), "all", quiet(3, 4), "ann")
    await reader.run_once()
    assert set(await reader.put_off(items)) == {item.id for item in items}


async def test_a_run_does_not_time_out_over_quiet_hours(stage: Stage) -> None:
    await stage.put(plan({"mail": send(1, "+61412345678")}, timeout_seconds=60.0))
    run = await stage.trigger()
    await stage.walk_on()
    await _put_off(stage.scene, await stage.scene.claim())
    # An hour later.
    await stage.database.fetch("UPDATE dispatcher.moved_deliveries SET due_at = now() - interval '1 h'")
    await stage.database.fetch(
        """UPDATE dispatcher.runs SET available_at = now(), state = jsonb_set(
               state, '{working_since}', to_jsonb(extract(epoch FROM now() - interval '1 h')))"""
    )
    await stage.walk_on()
    assert await stage.statuses() == {"running": 1}
    await stage.database.fetch("UPDATE dispatcher.delivery_state SET run_at = now()")
    await stage.play()
    assert await stage.statuses() == {"completed": 1}
    assert (await stage.run(run))["error"] is None


async def test_a_campaign_with_a_rate_writes_on_while_quiet_hours_hold_what_it_has_written(
    database: Database,
) -> None:
    """It may be ahead by a minute of its rate: three deliveries, of which all wait for the morning."""
    campaigns = await Campaigns.open(database)
    run = await campaigns.deployed(9, 3, rate=0.05)
    await campaigns.expand_all()
    assert len(await campaigns.ids(run)) == 3
    await database.fetch("UPDATE dispatcher.contacts SET time_zone = 'UTC'")
    await _put_off(campaigns.scene, await campaigns.claim())
    assert await campaigns.lock() is None
    await campaigns.value("SELECT dispatcher.count_deferred(20000)")
    assert await campaigns.lock() is not None
