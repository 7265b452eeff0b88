"""Planning on a real database: it keeps nobody waiting, ends in time, and leaves its transaction as it was."""

import pytest

from dispatcher.base.errors import TriggerRefused
from dispatcher.base.workspace import Workspace
from dispatcher.config.settings import Config
from dispatcher.db import tenants
from dispatcher.db.database import Database
from dispatcher.features.runs import store as runs
from dispatcher.features.runs.dry_run import planner as planning
from dispatcher.features.runs.store import Trigger
from dispatcher.plans.plan import Delay, Plan
from dispatcher.plans.simulation import planned
from tests.support import flows
from tests.support.scene import Connection

ASKED = Trigger(workflow="welcome", input="{}", key="planned", workspace=Workspace(), by="ann")
PATIENCE_SECONDS = 30.0
RESTING = Plan(name="welcome", entry="rest", nodes={"rest": Delay(step=1, seconds=60.0)}, edges={})


async def test_what_takes_long_is_planned_in_the_worker_process(
    database: Database, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await flows.put(connection)
    here = await planning.plan(database, Config(), ASKED, {})
    monkeypatch.setattr(planned, "EVENT_LOOP_SECONDS_MAX", -1.0)
    there = await planning.plan(database, Config(), ASKED, {})
    assert [(one.node, one.messages) for one in there.steps] == [(one.node, one.messages) for one in here.steps]


async def test_the_rest_of_its_transaction_may_write(database: Database, connection: Connection) -> None:
    await flows.put(connection)
    async with tenants.transaction(database, Workspace()) as inside:
        planned = await planning.plan(inside, Config(), ASKED, {})
        started = await runs.trigger(inside, ASKED)
        again = await planning.plan(inside, Config(), ASKED, {})
    assert (planned.duplicate_of, again.duplicate_of) == (None, started.execution_id)
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.runs") == 1


async def test_a_refusal_leaves_its_transaction_sound(database: Database, connection: Connection) -> None:
    await flows.put(connection, flows.plan(required=["order"]))
    async with tenants.transaction(database, Workspace()) as inside:
        with pytest.raises(TriggerRefused, match="order: is required"):
            await planning.plan(inside, Config(), ASKED, {})
        assert await inside.fetch("SELECT 1")
