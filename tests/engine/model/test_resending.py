"""Sending again what may have gone out: for how long a key protects it, and what becomes of it afterwards."""

from datetime import UTC, datetime

from dispatcher.db.health import checks
from dispatcher.engine.rules.life import Again, Back, Claimed, Failed, Resend
from dispatcher.engine.store import held
from dispatcher.features.deliveries import store as deliveries
from tests.support.scene import Scene

KEY = Resend("key", 3_600.0)
UNKNOWN = Again(0.0, "unknown: no answer", KEY)


async def _unknown(scene: Scene) -> Claimed:
    """An unknown attempt, to be sent again under its key."""
    (item,) = await scene.marked(resend=KEY)
    assert await scene.flush((item, UNKNOWN), spent=[item.token]) == []
    return item


async def _forgotten(scene: Scene) -> Claimed:
    """As above, and claimed when its provider knows the key no longer."""
    item = await _unknown(scene)
    await scene.database.fetch("UPDATE dispatcher.delivery_state SET resend_until = now() WHERE id = $1", item.id)
    (item,) = await scene.claim(resend=KEY)
    assert await scene.mark([item]) == {}
    assert await scene.life(item.id) == "held"
    return item


async def _sound(scene: Scene) -> None:
    assert [found for name in checks.invariants() if (found := await checks.check(scene.database, name))] == []


async def _two_hours_later(scene: Scene) -> None:
    """The provider knows a key for one."""
    past = """UPDATE dispatcher.delivery_state SET key_used_at = key_used_at - interval '2 h',
                     resend_until = resend_until - interval '2 h'"""
    await scene.database.fetch(past)


async def test_a_key_is_known_from_its_first_use_and_not_from_its_result(scene: Scene) -> None:
    """Postgres was away for two hours: the result was written when the provider had forgotten the key."""
    (item,) = await scene.marked(resend=KEY)
    await _two_hours_later(scene)
    await scene.flush((item, UNKNOWN), spent=[item.token])
    (item,) = await scene.claim(resend=KEY)
    assert await scene.mark([item]) == {}
    assert await scene.life(item.id) == "held"


async def test_a_key_is_known_from_its_first_use_and_not_from_its_owners_death(scene: Scene) -> None:
    (item,) = await scene.marked(resend=KEY)
    await _two_hours_later(scene)
    assert (await scene.die()).retried == 1
    rival = await Scene.open(scene.database)
    (item,) = await rival.claim(resend=KEY)
    assert await rival.mark([item]) == {}
    assert await scene.life(item.id) == "held"


async def test_a_key_is_used_for_the_first_time_by_an_attempt_whose_outcome_is_known(scene: Scene) -> None:
    """The provider was busy, and may have noted the key all the same; two hours later nobody knows what it did."""
    (item,) = await scene.marked(resend=KEY)
    await scene.flush((item, Again(0.0, "busy")), spent=[item.token])
    await _two_hours_later(scene)
    (item,) = await scene.claim(resend=KEY)
    assert await scene.mark([item]) == {item.id: 2}
    await scene.flush((item, UNKNOWN), spent=[item.token])
    (item,) = await scene.claim(resend=KEY)
    assert await scene.mark([item]) == {}
    assert await scene.life(item.id) == "held"


async def test_a_key_that_is_known_is_used_again(scene: Scene) -> None:
    item = await _unknown(scene)
    (item,) = await scene.claim(resend=KEY)
    assert await scene.mark([item]) == {item.id: 2}


async def test_a_repeat_after_the_key_expired_is_not_a_separate_attempt(scene: Scene) -> None:
    item = await _forgotten(scene)
    assert (await scene.row(item.id))["attempt"] == 1
    await _sound(scene)


async def test_an_operator_may_send_again_what_its_provider_has_forgotten(scene: Scene) -> None:
    item = await _forgotten(scene)
    assert await held.settle(scene.database, item.id, "requeue", "ann", "it never came") == "settled"
    (again,) = await scene.claim(resend=KEY)
    assert await scene.mark([again]) == {item.id: 2}
    await _sound(scene)


async def test_an_unknown_mark_takes_no_attempt_from_what_was_held_meanwhile(scene: Scene) -> None:
    item = await _forgotten(scene)
    await scene.late(item, Back(0.0, "the mark's outcome is unknown"))
    assert (await scene.row(item.id))["attempt"] == 1
    await _sound(scene)


async def test_reopened_deliveries_do_not_wait_for_an_old_key(scene: Scene) -> None:
    item = await _unknown(scene)
    await deliveries.cancel(scene.database, item.id, "ann", "wait")
    await held.settle(scene.database, item.id, "failed", "ann", "it never came")
    await deliveries.reopen(scene.database, item.id, "ann", "now send it")
    assert (await scene.row(item.id))["resend_until"] is None


async def _begins_a_new_life(scene: Scene, item: Claimed) -> None:
    """An unknown attempt is sent again under its key, although that was first used longer ago than it is known."""
    (again,) = await scene.claim(resend=KEY)
    assert again.idempotency_key == item.idempotency_key
    attempts = await scene.mark([again])
    await scene.flush((again, UNKNOWN), spent=[again.token])
    (again,) = await scene.claim(resend=KEY)
    assert await scene.mark([again]) == {item.id: attempts[item.id] + 1}
    await _two_hours_later(scene)
    await scene.flush((again, UNKNOWN), spent=[again.token])
    (again,) = await scene.claim(resend=KEY)
    assert await scene.mark([again]) == {}
    assert await scene.life(item.id) == "held"
    await _sound(scene)


async def test_with_a_reopening_a_key_begins_a_new_life(scene: Scene) -> None:
    (item,) = await scene.marked(resend=KEY)
    await scene.flush((item, Failed("recipient: no")), spent=[item.token])
    await _two_hours_later(scene)
    await deliveries.reopen(scene.database, item.id, "ann", "he has moved")
    await _begins_a_new_life(scene, item)


async def test_with_a_requeue_a_key_begins_a_new_life(scene: Scene) -> None:
    item = await _forgotten(scene)
    await _two_hours_later(scene)
    assert await held.settle(scene.database, item.id, "requeue", "ann", "it never came") == "settled"
    await _begins_a_new_life(scene, item)


async def _busy(scene: Scene, item: Claimed) -> None:
    await scene.flush((item, Again(100.0, "busy")), spent=[item.token])


async def _busy_again(scene: Scene) -> None:
    (item,) = await scene.claim()
    await scene.mark([item])
    await _busy(scene, item)


async def test_a_retry_that_an_operator_moves_breaks_no_invariant(scene: Scene) -> None:
    (item,) = await scene.marked()
    await _busy(scene, item)
    await deliveries.move(scene.database, item.id, datetime.now(UTC), "ann", "the provider is back")
    await _busy_again(scene)
    await _sound(scene)


async def test_a_retry_that_an_operator_reopens_breaks_no_invariant(scene: Scene) -> None:
    (item,) = await scene.marked()
    await _busy(scene, item)
    await deliveries.cancel(scene.database, item.id, "ann", "the provider is away")
    await deliveries.reopen(scene.database, item.id, "ann", "the provider is back")
    await _busy_again(scene)
    await _sound(scene)


async def test_a_move_excuses_no_later_retry(scene: Scene) -> None:
    (waiting,) = await scene.write()
    await deliveries.move(scene.database, waiting, datetime.now(UTC), "ann", "at once")
    (item,) = await scene.claim()
    await scene.mark([item])
    await _busy(scene, item)
    await scene.due_now()
    await _busy_again(scene)
    found = await checks.check(scene.database, "backoff_is_respected")
    assert found is not None
    assert found.ids == [waiting]
