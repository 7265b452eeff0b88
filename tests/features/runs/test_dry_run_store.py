"""Planning on a real database: it keeps nobody waiting, ends in time, and leaves its transaction as it was."""

import pytest

from dispatcher.base.errors import TriggerRefused
from dispatcher.base.worker_process import Offload
from dispatcher.base.workspace import Workspace
from dispatcher.config.settings import Config
from dispatcher.db import tenants
from dispatcher.db.database import Database
from dispatcher.features.runs import store as runs
from dispatcher.features.runs.dry_run import planner
from dispatcher.features.runs.store import Trigger
from dispatcher.plans.simulation import planned
from tests.support import flows
from tests.support.scene import Connection

ASKED = Trigger(workflow="welcome", input="{}", key="planned", workspace=Workspace(), by="ann")


async def test_long_plans_are_made_in_the_worker_process(
    database: Database, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await flows.put(connection)
    here = await planner.plan(database, Config(), ASKED, {}, Offload())
    monkeypatch.setattr(planned, "EVENT_LOOP_SECONDS_MAX", -1.0)
    there = await planner.plan(database, Config(), ASKED, {}, Offload())
    assert [(one.node, one.messages) for one in there.steps] == [(one.node, one.messages) for one in here.steps]


async def test_the_rest_of_its_transaction_may_write(database: Database, connection: Connection) -> None:
    await flows.put(connection)
    async with tenants.transaction(database, Workspace()) as inside:
        planned = await planner.plan(inside, Config(), ASKED, {}, Offload())
        started = await runs.trigger(inside, ASKED)
        again = await planner.plan(inside, Config(), ASKED, {}, Offload())
    assert (planned.duplicate_of, again.duplicate_of) == (None, started.execution_id)
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.runs") == 1


async def test_a_refusal_leaves_its_transaction_sound(database: Database, connection: Connection) -> None:
    await flows.put(connection, flows.plan(required=["order"]))
    async with tenants.transaction(database, Workspace()) as inside:
        with pytest.raises(TriggerRefused, match="order: is required"):
            await planner.plan(inside, Config(), ASKED, {}, Offload())
        assert await inside.fetch("SELECT 1")
