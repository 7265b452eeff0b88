"""Whatever ends a delivery wakes the run that waits for it, in the same transaction; and nobody waits for a walker."""

from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from dispatcher.base.values.addresses import Address
from dispatcher.engine.rules.life import Again, Failed, Held, PoisonStep, Skipped, Succeeded
from dispatcher.engine.store import claims, held, suppression
from dispatcher.features.suppressions import store as suppressions
from dispatcher.features.suppressions.store import Entry
from tests.support.flows import at_node, ordered, put, stand, trigger, wakes
from tests.support.scene import RESEND, Connection, Scene

GONE = "now() - interval '1 second'"


class Stage:
    """A run that waits for one delivery, and those who may end that."""

    def __init__(self, connection: Connection, scene: Scene, run: int) -> None:
        self.connection = connection
        self.scene = scene
        self.run = run

    async def marked(self, **fields: Any) -> Any:
        """The delivery, with its provider."""
        await ordered(self.connection, self.run, **fields)
        (item,) = await self.scene.claim()
        await self.scene.mark([item])
        return item

    async def held(self) -> Any:
        """The delivery, of which nobody knows how its call ended."""
        item = await self.marked()
        await self.scene.flush((item, Held("unknown: x")))
        return item

    async def do(self, statement: str, *given: object) -> None:
        """What somebody does in SQL."""
        await self.connection.execute(statement, *given)


async def _accepted(stage: Stage) -> None:
    await stage.scene.flush((await stage.marked(), Succeeded("m")))


async def _answered(stage: Stage) -> None:
    await stage.scene.flush((await stage.marked(), Succeeded("m", data={"a": 1})))


async def _refused(stage: Stage) -> None:
    await stage.scene.flush((await stage.marked(), Failed("no such number")))


async def _skipped(stage: Stage) -> None:
    await ordered(stage.connection, stage.run)
    (item,) = await stage.scene.claim()
    await stage.scene.flush((item, Skipped("not now")))


async def _settled(stage: Stage) -> None:
    item = await stage.held()
    await held.settle(stage.scene.database, item.id, "failed", "ann", "looked it up")


async def _settled_as_sent(stage: Stage) -> None:
    item = await stage.held()
    await held.settle(stage.scene.database, item.id, "sent", "ann", "looked it up", "m")


async def _late(stage: Stage) -> None:
    item = await stage.marked()
    await stage.scene.die()
    assert await stage.scene.late(item, Succeeded("m")) == "resolved"


async def _by_evidence(stage: Stage) -> None:
    item = await stage.held()
    await stage.do(
        "INSERT INTO dispatcher.delivery_evidence (delivery_id, token, verdict, provider_message_id)"
        " VALUES ($1, 1, 'accepted', 'm')",
        item.id,
    )
    assert await held.settle_by_evidence(stage.scene.database) == 1


async def _cancelled(stage: Stage) -> None:
    (delivery,) = await ordered(stage.connection, stage.run)
    await stage.do("SELECT dispatcher.cancel_delivery_by_id($1, 'ann', 'no')", delivery)


async def _cancelled_through_the_view(stage: Stage) -> None:
    (delivery,) = await ordered(stage.connection, stage.run)
    await stage.do("UPDATE dispatcher.channel_outbox SET status = 'skipped' WHERE id = $1", delivery)


async def _expired(stage: Stage) -> None:
    await ordered(stage.connection, stage.run)
    await stage.do(f"UPDATE dispatcher.delivery_state SET expires_at = {GONE}")
    assert await held.expire(stage.scene.database, 10) == 1


async def _expired_at_the_mark(stage: Stage) -> None:
    await ordered(stage.connection, stage.run)
    (item,) = await stage.scene.claim()
    await stage.do(f"UPDATE dispatcher.delivery_state SET expires_at = {GONE}")
    assert await stage.scene.mark([item]) == {}


async def _suppressed(stage: Stage) -> None:
    await ordered(stage.connection, stage.run)
    entry = Entry(Address("phone", "+4917012345"), "operator", "asked")
    await suppressions.add(stage.scene.database, "default", "ann", [entry])
    assert await suppression.catch_up(stage.scene.database, 10) == 1


async def _unserved(stage: Stage) -> None:
    await ordered(stage.connection, stage.run)
    await stage.do("UPDATE dispatcher.instances SET channels = '{email}'")
    await stage.do(f"UPDATE dispatcher.delivery_state SET run_at = {GONE} - interval '1 day'")
    assert await claims.fail_unserved(stage.scene.database, 10) == 1


async def _poison(stage: Stage) -> None:
    await ordered(stage.connection, stage.run)
    await stage.do("UPDATE dispatcher.delivery_state SET recoveries = 5")
    (_,) = await stage.scene.claim_recovered(PoisonStep(2, 9, 1))
    assert (await stage.scene.die()).poisoned == 1


async def _born_failed(stage: Stage) -> None:
    await stage.do(
        """INSERT INTO dispatcher.deliveries (run_id, node, idempotency_key, channel, recipient, template_name)
           VALUES ($1, 'mail', 'k', 'sms', '+4917012345', 'nobody')""",
        stage.run,
    )


async def _reopened(stage: Stage) -> None:
    item = await stage.marked()
    await stage.scene.flush((item, Failed("no")))
    await stage.do("DELETE FROM dispatcher.wakes")
    await stage.do("SELECT dispatcher.reopen_delivery($1, 'ann', 'again')", item.id)


ENDS: dict[str, tuple[Callable[[Stage], Awaitable[None]], str]] = {
    "accepted": (_accepted, "sent"),
    "answered": (_answered, "sent"),
    "refused": (_refused, "failed"),
    "skipped": (_skipped, "skipped"),
    "settled as failed": (_settled, "failed"),
    "settled as sent": (_settled_as_sent, "sent"),
    "late evidence": (_late, "sent"),
    "kept evidence": (_by_evidence, "sent"),
    "cancelled": (_cancelled, "skipped"),
    "cancelled through the view": (_cancelled_through_the_view, "skipped"),
    "expired": (_expired, "skipped"),
    "expired at the mark": (_expired_at_the_mark, "skipped"),
    "suppressed": (_suppressed, "skipped"),
    "unserved": (_unserved, "failed"),
    "poison": (_poison, "failed"),
    "born failed": (_born_failed, "failed"),
    "reopened": (_reopened, "pending"),
}


@pytest.fixture
async def stage(connection: Connection, scene: Scene) -> Stage:
    """A run that waits for deliveries of its first node."""
    await put(connection)
    run = (await trigger(connection))["execution_id"]
    await at_node(connection, run)
    return Stage(connection, scene, run)


@pytest.mark.parametrize("end", ENDS)
async def test_an_end_wakes_its_run_and_waits_for_no_walker(stage: Stage, url: str, end: str) -> None:
    ends, life = ENDS[end]
    walker = await asyncpg.connect(url)
    try:
        # A walker has the run; whoever ends the delivery would wait here for ever.
        transaction = walker.transaction()
        await transaction.start()
        await walker.execute("SELECT FROM dispatcher.runs WHERE id = $1 FOR UPDATE", stage.run)
        await ends(stage)
        await transaction.rollback()
    finally:
        await walker.close()
    (delivery,) = await stage.connection.fetchrow("SELECT min(id) FROM dispatcher.deliveries") or (0,)
    assert await stand(stage.connection, [delivery]) == [life]
    assert set(await wakes(stage.connection)) == {stage.run}


@pytest.mark.parametrize("end", ["held", "a retry", "nothing"])
async def test_a_change_that_ends_no_delivery_wakes_no_run(stage: Stage, end: str) -> None:
    item = await stage.marked()
    if end == "held":
        await stage.scene.flush((item, Held("unknown: x")))
    elif end == "a retry":
        await stage.scene.flush((item, Again(60.0, "try later", RESEND)))
    assert await wakes(stage.connection) == []


async def test_a_wake_and_its_end_are_one_transaction(stage: Stage) -> None:
    (delivery,) = await ordered(stage.connection, stage.run)
    transaction = stage.connection.transaction()
    await transaction.start()
    await stage.do("SELECT dispatcher.cancel_delivery_by_id($1, 'ann', 'no')", delivery)
    assert await wakes(stage.connection) == [stage.run]
    await transaction.rollback()
    assert await wakes(stage.connection) == []
    assert await stand(stage.connection, [delivery]) == ["pending"]


async def test_a_delivery_that_no_node_waits_for_wakes_no_run(stage: Stage) -> None:
    await stage.do(
        """INSERT INTO dispatcher.deliveries (run_id, idempotency_key, channel, recipient, template)
           VALUES ($1, 'k', 'sms', '+4917012345', '{"body": "x"}')""",
        stage.run,
    )
    (item,) = await stage.scene.claim()
    await stage.scene.mark([item])
    await stage.scene.flush((item, Succeeded("m")))
    assert await wakes(stage.connection) == []
