"""From claim to written result: what must have happened before a provider is called, and what may not be lost."""

from collections.abc import Sequence

import asyncpg
import pytest

from channels.contract import Accepted, Envelope, RetryAfter, Verdict
from dispatcher.db.database import Database
from dispatcher.engine.rules.life import Claimed, Held, Lane, Resend, Result, Succeeded
from dispatcher.engine.store import claims, flushes, instances, marks
from tests.engine.stage import Stage
from tests.support.scene import RESEND, Scene
from tests.support.waits import until


async def test_every_called_delivery_was_marked_before(stage: Stage) -> None:
    stage.sms.holds = lambda _: True
    async with stage.playing():
        ids = await stage.write(2)
        await until(lambda: len(stage.sms.given) == 2, "both are being called")
        assert await stage.lives(ids) == ["sending", "sending"]
        assert [(await stage.row(one))["attempt"] for one in ids] == [1, 1]


async def test_nothing_is_called_of_what_the_mark_left_out(stage: Stage) -> None:
    stage.sms.ready.clear()
    async with stage.playing():
        (gone,) = await stage.write(1)
        await until(lambda: stage.sms.preparing == 1, "it is about to be marked")
        await stage.database.fetch("SELECT dispatcher.cancel_delivery_by_id($1, 'ann', 'no')", gone)
        stage.sms.ready.set()
        await stage.until_empty()
    assert stage.sms.given == []


async def test_a_delivery_moved_and_claimed_again_is_called_once(stage: Stage) -> None:
    """Both claims of it stand in one batch, and one of them is its own."""
    stage.sms.ready.clear()
    async with stage.playing():
        first = await stage.write(1)
        await until(lambda: stage.sms.preparing == 1, "the lane waits for a connection")
        (moved,) = await stage.write(1)
        await stage.until_all([moved], "claimed")
        await stage.database.fetch("SELECT dispatcher.move_delivery($1, now(), 'ann', 'at once')", moved)
        stage.woken.set()
        await stage.until_all([moved], "claimed")
        stage.sms.ready.set()
        await stage.sent_once([*first, moved])


async def test_each_attempt_carries_the_same_key_and_says_the_same(stage: Stage) -> None:
    def busy_at_first(envelope: Envelope) -> Verdict:
        return RetryAfter("busy", 0.0) if len(stage.sms.given) == 1 else Accepted("p")

    stage.sms.answer = busy_at_first
    async with stage.playing():
        ids = await stage.write(1, body="{{ name }}", variables='{"name": "ann"}')
        await stage.until_all(ids, "sent")
    first, second = stage.sms.given
    assert (first.attempt, second.attempt) == (1, 2)
    assert first.idempotency_key == second.idempotency_key
    assert first.parts == second.parts == {"body": "ann"}


async def test_a_late_acceptance_ends_what_was_to_be_sent_again(stage: Stage) -> None:
    """The flusher hands in what its flush could not write any more."""
    await stage.join()
    item = await _marked(stage, Resend("at_least_once"))
    await instances.fence(stage.database, stage.pipeline.epoch.number, 1_000)
    await instances.recover(stage.database, 10)
    assert await stage.lives([item.id]) == ["pending"]
    stage.pipeline.inbox.put(item, Succeeded("p"))
    await stage.pipeline.flusher.run_once()
    assert await stage.lives([item.id]) == ["sent"]


async def test_a_licence_has_begun_when_the_mark_is_asked_for(stage: Stage) -> None:
    """A fence may come as soon as the mark is committed, long before it is answered."""
    await stage.join()
    epoch = stage.pipeline.epoch
    await stage.write(1)
    wanted = claims.Wanted("sms", Lane.NORMAL, 1, epoch.tokens.issue(), Resend(), 60.0)
    items = await claims.claim(stage.database, epoch.number, wanted)

    def clock() -> float:
        return 100.0 * stage.database.count("marks.mark")

    licence, _ = await marks.mark(stage.database, epoch.number, items, clock, 5.0, "capture")
    assert licence.deadline == 5.0
    assert licence.expired()


async def _marked(stage: Stage, resend: Resend) -> Claimed:
    epoch = stage.pipeline.epoch
    await stage.write(1)
    wanted = claims.Wanted("sms", Lane.NORMAL, 1, epoch.tokens.issue(), resend, 60.0)
    (item,) = await claims.claim(stage.database, epoch.number, wanted)
    epoch.tokens.claimed(item.token, 1)
    epoch.lanes["sms", Lane.NORMAL].outstanding += 1
    await marks.mark(stage.database, epoch.number, [item], epoch.clock.boottime, 60.0, "capture")
    return item


async def test_a_claim_stands_until_its_last_result_is_written(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flush is cut in half: what the second half would have written can still be recovered."""
    accepted, unknown = await scene.marked(2)

    async def cut_off(database: Database, results: Sequence[Result], spent: Sequence[int]) -> set[tuple[int, int]]:
        raise ConnectionResetError

    monkeypatch.setattr(flushes, "_write_accepted", cut_off)
    with pytest.raises(ConnectionResetError):
        await scene.flush((accepted, Succeeded("p")), (unknown, Held("unknown: x")), spent=[accepted.token])
    assert (await scene.die()).held == 1
    assert await scene.lives([accepted.id, unknown.id]) == ["held", "held"]


async def test_an_end_is_final_unless_it_is_reopened(scene: Scene) -> None:
    (item,) = await scene.marked()
    await scene.flush((item, Succeeded("p")))
    again = "UPDATE dispatcher.delivery_state SET status = 'queued', finished_at = NULL WHERE id = $1"
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError):
        await scene.database.fetch(again, item.id)
    assert await scene.life(item.id) == "sent"


async def test_a_drain_waits_for_postgres_to_take_what_is_known(stage: Stage) -> None:
    stage.database.lose_requests("flushes.accepted", 3)
    async with stage.playing() as running:
        ids = await stage.write(2)
        await until(lambda: len(stage.sms.given) == 2, "both were called")
        stage.pipeline.draining.set()
        await running
        assert await stage.lives(ids) == ["sent", "sent"]


async def test_held_deliveries_stay_held_after_recovery(scene: Scene) -> None:
    """Also where its channel may send again: an operator decides, or evidence does."""
    unknown, other = await scene.marked(2, resend=RESEND)
    await scene.flush((unknown, Held("unknown: x")))
    assert (await scene.die()).retried == 1
    await instances.recover(scene.database, 100)
    assert await scene.lives([unknown.id, other.id]) == ["held", "pending"]
