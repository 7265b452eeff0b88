"""A tenant that is not here stands still: what waits keeps waiting, and goes on when it is here again."""

from collections.abc import Callable
from typing import Any

import pytest

from dispatcher.base.metrics import Metrics
from dispatcher.config.settings import Walk
from dispatcher.db.cells import TenantMoving
from dispatcher.db.database import Database
from dispatcher.engine.rules.life import Succeeded
from dispatcher.engine.store import pauses
from dispatcher.features.runs.walk import walking
from dispatcher.features.schedules.worker import Ticker
from dispatcher.features.webhooks.worker import Announcer
from tests.features.campaigns.stage import Stage as Campaigns
from tests.features.runs.plans import idle, put_plan
from tests.features.runs.stage import Stage
from tests.features.webhooks import hooks
from tests.plans.walks import plan, send
from tests.support.scene import Connection, Scene

HERE, THERE = 1, 2


@pytest.fixture
def place(database: Database) -> Callable[[str], Any]:
    """Places the tenant of everything here, each time by a newer directory, in what becomes a cell."""
    version = 0

    async def place(state: str) -> None:
        nonlocal version
        version += 1
        await database.fetch("SELECT dispatcher.join_cells($1::smallint)", HERE)
        cell = HERE if state == "here" else THERE
        placed = "SELECT dispatcher.place_tenant('default', $1::smallint, '', $2, $3)"
        await database.fetch(placed, cell, state, version)

    return place


@pytest.mark.parametrize("state", ["leaving", "elsewhere"])
async def test_its_deliveries_wait_for_the_pause_of_the_move(
    database: Database, place: Callable[[str], Any], state: str
) -> None:
    await place(state)
    assert set((await pauses.current(database)).tenants) == {"default"}
    await place("here")
    assert not (await pauses.current(database)).tenants


async def test_a_pause_by_an_operator_outlasts_the_move(database: Database, place: Callable[[str], Any]) -> None:
    await database.fetch("SELECT dispatcher.pause('tenant', 'default', NULL, NULL, 'ann', 'x')")
    await place("leaving")
    await place("here")
    assert set((await pauses.current(database)).tenants) == {"default"}


async def test_its_runs_are_parked_and_go_on_where_they_were(stage: Stage, place: Callable[[str], Any]) -> None:
    await stage.put(plan({"text": send(1)}))
    run = await stage.trigger()
    await place("leaving")
    assert await stage.walk_on() == 0
    parked = "SELECT parked_by IS NOT NULL FROM dispatcher.runs WHERE id = $1"
    assert await stage.database.value(parked, run)
    await stage.poison_worker.run_once()
    assert await stage.database.value(parked, run)
    await place("here")
    await stage.poison_worker.run_once()
    assert await stage.walk_on() == 1


async def test_a_walk_that_was_under_way_is_nobodys_fault(
    stage: Stage, place: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The move begins between the look at a run and what that orders."""
    await stage.put(plan({"text": send(1)}))
    run = await stage.trigger()
    write = walking.write_orders

    async def write_late(*given: Any) -> None:
        await place("leaving")
        await write(*given)

    monkeypatch.setattr(walking, "write_orders", write_late)
    with pytest.raises(TenantMoving):
        await stage.walk()
    monkeypatch.undo()
    assert await stage.walk_on() == 0
    await place("here")
    await stage.poison_worker.run_once()
    assert await stage.walk_on() == 1
    row = (await stage.database.fetch("SELECT takes, dead, status FROM dispatcher.runs WHERE id = $1", run))[0]
    assert (row["takes"], row["dead"]) == (0, False)


async def test_its_schedules_do_not_tick_and_make_up_for_it(
    database: Database, connection: Connection, place: Callable[[str], Any]
) -> None:
    await put_plan(connection, idle())
    named = "'default', 'default', 'nightly', 'report', '@hourly', 'UTC', '{}', now(), 'ann'"
    await database.fetch(f"SELECT dispatcher.put_schedule({named})")
    ticker = Ticker(database, Walk(), Metrics(), lambda: None)
    await place("leaving")
    assert await ticker.run_once() == []
    await place("here")
    (ticked,) = await ticker.run_once()
    assert ticked.refusal is None


async def test_its_campaigns_are_not_expanded_until_it_is_here_again(
    database: Database, place: Callable[[str], Any]
) -> None:
    campaigns = await Campaigns.open(database)
    run = await campaigns.deployed(3)
    await place("leaving")
    assert await campaigns.lock() is None
    await place("here")
    job = await campaigns.lock()
    assert job is not None
    await place("leaving")
    # Locked before: it stays as it is, and is neither expanded nor given up.
    assert await campaigns.expand(job) is None
    assert await campaigns.lock() is None
    assert await campaigns.ids(run) == []
    await place("here")
    assert await campaigns.lock() == job
    assert await campaigns.expand(job) == 3


async def test_what_is_told_of_it_waits(database: Database, place: Callable[[str], Any]) -> None:
    await hooks.make(database)
    scene = await Scene.open(database)
    (item,) = await scene.marked()
    await place("leaving")
    # What was with its provider ends as it ends, and is kept.
    await scene.flush((item, Succeeded("m-1")))
    assert await database.value("SELECT status FROM dispatcher.delivery_state WHERE id = $1", item.id) == "sent"
    announcer = Announcer(database, Walk(), Metrics())
    assert await announcer.run_once() == 0
    await place("here")
    assert await announcer.run_once() == 1
