"""Pairs of statements that meet on a delivery, in both orders: who waits for whom, and what comes of it."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from dispatcher.db.health import checks
from dispatcher.engine.rules.life import Again, Claimed, Lane, Succeeded
from dispatcher.engine.store import claims, held, instances
from dispatcher.features.deliveries import store as deliveries
from tests.engine.model.interleaving import Pair, Statement
from tests.support import pauses
from tests.support.scene import RESEND, Connection, Scene
from tests.support.waits import until_blocked


@pytest.fixture
async def pair(url: str) -> AsyncIterator[Pair]:
    """Two that meet."""
    async with Pair.open(url) as pair:
        yield pair


def _mark(scene: Scene, item: Claimed) -> Statement:
    return Statement("marks", "mark", (scene.epoch, [item.id], [item.token], "capture"))


def _fence(scene: Scene) -> Statement:
    return Statement("instances", "fence", (scene.epoch, 20_000))


def _claim(scene: Scene, token: int) -> Statement:
    return Statement(
        "claims",
        "claim",
        (scene.epoch, token, None, None, 60.0, "sms", Lane.NORMAL.value, 10, [], None),
    )


def _accepted(item: Claimed) -> Statement:
    return Statement("flushes", "accepted", ([item.id], [item.token], ["sent"], ["m-1"], []))


def _parked(item: Claimed, pause: int) -> Statement:
    return _again(item, "paused", give_back=True, pause=pause)


def _again(
    item: Claimed, reason: str, delay: float = 0.0, give_back: bool = False, pause: int | None = None
) -> Statement:
    columns: tuple[object, ...] = (
        [item.id],
        [item.token],
        ["queued"],
        [False],
        [reason],
        [delay],
        [give_back],
        [False],
        [pause],
        [None],
        [None],
        [False],
        [False],
        [],
        *([] for _ in range(5)),  # no address is dead
    )
    return Statement("flushes", "others", columns)


def _cancel(delivery_id: int) -> Statement:
    return Statement("dispatcher.features.deliveries.store", "cancel", (delivery_id, "ann", "no"))


def _settle(delivery_id: int, settle_as: str) -> Statement:
    return Statement("held", "settle", (delivery_id, settle_as, "ann", "the books", None))


def _late(item: Claimed) -> Statement:
    return Statement("flushes", "late", (item.id, item.token, "accepted", "sent", "m-late", None))


RECOVER = Statement("instances", "recover", (100,))
UNPARK = Statement("pauses", "unpark", (100,))


async def _claimed(scene: Scene) -> Claimed:
    await scene.write(1)
    (item,) = await scene.claim()
    return item


async def _held(scene: Scene) -> Claimed:
    """Held, its owner's last call long over."""
    (item,) = await scene.marked()
    await scene.die()
    await scene.database.fetch("UPDATE dispatcher.delivery_state SET settle_after = now() WHERE held")
    return item


async def test_a_fence_waits_for_a_mark_and_the_marked_one_is_held(scene: Scene, pair: Pair) -> None:
    item = await _claimed(scene)
    met = await pair.meet(_mark(scene, item), _fence(scene))
    assert (met.waited, met.first, met.second) == (True, [(item.id, 1)], [(True,)])
    assert (await instances.recover(scene.database, 100)).held == 1


async def test_a_mark_waits_for_a_fence_and_marks_nothing(scene: Scene, pair: Pair) -> None:
    item = await _claimed(scene)
    met = await pair.meet(_fence(scene), _mark(scene, item))
    assert (met.waited, met.second) == (True, [])
    assert (await instances.recover(scene.database, 100)).requeued == 1


async def test_a_fence_waits_for_a_claim_and_recovery_finds_it(scene: Scene, pair: Pair) -> None:
    (waiting,) = await scene.write(1)
    met = await pair.meet(_claim(scene, scene.tokens.issue()), _fence(scene))
    assert (met.waited, len(met.first), met.second) == (True, 1, [(True,)])
    assert await scene.life(waiting) == "claimed"
    assert (await instances.recover(scene.database, 100)).requeued == 1


async def test_a_claim_waits_for_a_fence_and_takes_nothing(scene: Scene, pair: Pair) -> None:
    (waiting,) = await scene.write(1)
    met = await pair.meet(_fence(scene), _claim(scene, scene.tokens.issue()))
    assert (met.waited, met.second) == (True, [])
    assert await scene.life(waiting) == "pending"


async def test_a_cancellation_waits_for_a_mark_and_is_too_late(scene: Scene, pair: Pair) -> None:
    item = await _claimed(scene)
    met = await pair.meet(_mark(scene, item), _cancel(item.id))
    assert (met.waited, met.second) == (True, [("sending",)])
    assert await scene.life(item.id) == "sending"


async def test_a_mark_waits_for_a_cancellation_and_leaves_it_out(scene: Scene, pair: Pair) -> None:
    item = await _claimed(scene)
    met = await pair.meet(_cancel(item.id), _mark(scene, item))
    assert (met.waited, met.first, met.second) == (True, [("cancelled",)], [])
    assert await scene.life(item.id) == "skipped"


async def test_a_delivery_that_is_parked_cannot_be_marked_meanwhile(scene: Scene, pair: Pair) -> None:
    item = await _claimed(scene)
    pause = (await pauses.pause(scene.database, "tenant", "default", "ann", "wait")).id
    met = await pair.meet(_parked(item, pause), _mark(scene, item))
    assert (met.waited, met.second) == (True, [])
    assert await scene.life(item.id) == "parked"


async def test_a_mark_before_the_pause_keeps_its_licence(scene: Scene, pair: Pair) -> None:
    """A pause reaches what is not marked yet; who marks and who opens the pause do not wait for each other."""
    item = await _claimed(scene)
    pausing = Statement("dispatcher.features.pauses.store", "pause", ("tenant", "default", None, None, "ann", "wait"))
    met = await pair.meet(_mark(scene, item), pausing)
    assert (met.waited, met.first) == (False, [(item.id, 1)])
    met = await pair.meet(pausing, _accepted(item))
    assert (met.waited, met.second) == (False, [])
    assert await scene.life(item.id) == "sent"


async def test_a_delivery_parked_while_its_pause_ends_is_freed_by_the_next_round(scene: Scene, pair: Pair) -> None:
    item = await _claimed(scene)
    pause = (await pauses.pause(scene.database, "tenant", "default", "ann", "wait")).id
    await pauses.resume(scene.database, "tenant", "default", "ann")
    met = await pair.meet(_parked(item, pause), UNPARK)
    assert (met.waited, met.second) == (False, [(0,)])
    assert await pauses.unpark(scene.database, 100) == 1
    assert await scene.life(item.id) == "pending"


async def test_a_move_that_waits_for_a_retry_is_kept_as_later_than_it(scene: Scene, connection: Connection) -> None:
    """It was asked for when the attempt had not ended, and moved what follows that."""
    (item,) = await scene.marked()
    async with connection.transaction():
        await connection.execute("SELECT FROM dispatcher.delivery_state FOR UPDATE")
        moving = asyncio.create_task(deliveries.move(scene.database, item.id, datetime.now(UTC), "ann", "at once"))
        async with scene.database.connection() as watcher:
            await until_blocked(watcher)
        await _again(item, "busy", 100.0).run(connection)
    assert await moving == "moved"
    (item,) = await scene.claim()
    await scene.mark([item])
    await scene.flush((item, Again(100.0, "busy")))
    assert await checks.check(scene.database, "backoff_is_respected") is None


async def test_recovery_waits_for_a_flush_and_holds_nothing_that_it_wrote(scene: Scene, pair: Pair) -> None:
    (item,) = await scene.marked()
    await scene.fence()
    met = await pair.meet(_accepted(item), RECOVER)
    assert (met.waited, met.first) == (True, [])
    assert met.second[0][1:] == (0, 0, 0, 0)
    assert await scene.life(item.id) == "sent"


async def test_recovery_for_a_retry_waits_for_a_flush_too(scene: Scene, pair: Pair) -> None:
    (item,) = await scene.marked(resend=RESEND)
    await scene.fence()
    met = await pair.meet(_accepted(item), RECOVER)
    assert (met.waited, met.second[0][1:]) == (True, (0, 0, 0, 0))
    assert await scene.life(item.id) == "sent"
    assert await scene.value("SELECT count(*) FROM dispatcher.delivery_attempts") == 0


async def test_a_flush_waits_for_recovery_and_its_evidence_settles_what_that_held(scene: Scene, pair: Pair) -> None:
    (item,) = await scene.marked()
    await scene.fence()
    met = await pair.meet(RECOVER, _accepted(item))
    assert (met.waited, met.first[0][3]) == (True, 1)
    assert await scene.life(item.id) == "held"
    assert await scene.late(item, Succeeded("m-1")) == "resolved"
    assert await scene.life(item.id) == "sent"


async def test_a_flush_waits_for_recovery_and_is_fenced_by_its_retry(scene: Scene, pair: Pair) -> None:
    (item,) = await scene.marked(resend=RESEND)
    await scene.fence()
    met = await pair.meet(RECOVER, _accepted(item))
    assert (met.waited, met.first[0][2]) == (True, 1)
    assert await scene.life(item.id) == "pending"


async def test_forgetting_waits_for_its_claim_and_frees_it(scene: Scene, pair: Pair) -> None:
    (waiting,) = await scene.write(1)
    token = scene.tokens.issue()
    met = await pair.meet(_claim(scene, token), Statement("claims", "forget", (scene.epoch, token)))
    assert (met.waited, met.second) == (True, [(1,)])
    assert await scene.life(waiting) == "pending"


async def test_a_claim_waits_for_its_forgetting_and_is_forgotten_by_the_next(scene: Scene, pair: Pair) -> None:
    (waiting,) = await scene.write(1)
    token = scene.tokens.issue()
    forget = Statement("claims", "forget", (scene.epoch, token))
    met = await pair.meet(forget, _claim(scene, token))
    assert (met.waited, met.first, len(met.second)) == (True, [(0,)], 1)
    assert await claims.forget(scene.database, scene.epoch, token) == 1
    assert await scene.life(waiting) == "pending"


async def test_a_late_result_is_stored_beside_an_operators_settlement(scene: Scene, pair: Pair) -> None:
    item = await _held(scene)
    met = await pair.meet(_settle(item.id, "failed"), _late(item))
    assert (met.waited, met.first, met.second) == (True, [("settled",)], [("kept",)])
    assert await scene.life(item.id) == "failed"


async def test_a_late_acceptance_takes_back_what_an_operator_is_sending_again(scene: Scene, pair: Pair) -> None:
    item = await _held(scene)
    met = await pair.meet(_settle(item.id, "requeue"), _late(item))
    assert (met.waited, met.first, met.second) == (True, [("settled",)], [("resolved",)])
    assert await scene.life(item.id) == "sent"


async def test_an_operator_waits_for_a_late_result_and_sends_nothing_again(scene: Scene, pair: Pair) -> None:
    item = await _held(scene)
    met = await pair.meet(_late(item), _settle(item.id, "requeue"))
    assert (met.waited, met.first, met.second) == (True, [("resolved",)], [("sent",)])
    assert await scene.life(item.id) == "sent"


async def test_two_operators_settle_one_delivery_once(scene: Scene, pair: Pair) -> None:
    item = await _held(scene)
    met = await pair.meet(_settle(item.id, "sent"), _settle(item.id, "requeue"))
    assert (met.waited, met.first, met.second) == (True, [("settled",)], [("sent",)])
    assert await scene.value("SELECT count(*) FROM dispatcher.operator_actions") == 1


async def test_a_delivery_is_not_resent_while_its_dead_owners_call_may_be_under_way(scene: Scene) -> None:
    (item,) = await scene.marked()
    await scene.die()
    assert await held.settle(scene.database, item.id, "requeue", "ann", "I am sure") == "early"
    assert await scene.life(item.id) == "held"
