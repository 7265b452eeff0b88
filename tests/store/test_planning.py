"""Planning on a real database: it keeps nobody waiting, ends in time, and leaves its transaction as it was."""

import asyncio
from collections.abc import Sequence
from functools import partial
from threading import Event

import pytest

from dispatcher.config import Config
from dispatcher.domain.plans.plan import Delay, Plan
from dispatcher.domain.plans.planned import Effort, Message, Rendering
from dispatcher.domain.plans.run import Order
from dispatcher.errors import TriggerRefused
from dispatcher.store import planning, runs, tenants
from dispatcher.store.database import Database
from dispatcher.store.runs import Trigger
from dispatcher.store.templates import Workspace
from tests.store import flows
from tests.store.scene import Connection

ASKED = Trigger(workflow="welcome", input="{}", key="planned", workspace=Workspace(), by="ann")
PATIENCE_SECONDS = 30.0
RESTING = Plan(name="welcome", entry="rest", nodes={"rest": Delay(step=1, seconds=60.0)}, edges={})


async def test_whoever_shares_the_loop_goes_on_while_messages_are_rendered(
    database: Database, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await flows.put(connection)
    begun, others_went_on = Event(), Event()
    render = Rendering.messages

    def slowly(self: Rendering, order: Order) -> Sequence[Message]:
        begun.set()
        assert others_went_on.wait(PATIENCE_SECONDS)
        return render(self, order)

    monkeypatch.setattr(Rendering, "messages", slowly)
    under_way = asyncio.create_task(planning.plan(database, Config(), ASKED, {}))
    assert await asyncio.to_thread(begun.wait, PATIENCE_SECONDS)
    others_went_on.set()
    planned = await under_way
    assert [one.node for one in planned.steps] == ["mail", "wait"]


@pytest.mark.parametrize("what", [RESTING, flows.plan()], ids=["a walk", "messages"])
async def test_what_takes_too_long_is_refused(
    database: Database, connection: Connection, monkeypatch: pytest.MonkeyPatch, what: Plan
) -> None:
    await flows.put(connection, what)
    monkeypatch.setattr(planning, "Effort", partial(Effort, 0.0))
    with pytest.raises(TriggerRefused, match="more than 0 s of a processor's time"):
        await planning.plan(database, Config(), ASKED, {})


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
