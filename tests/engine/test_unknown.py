"""An unknown attempt that is to be sent again, and is not: whatever the reason, it is held, and no end is written."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dispatcher.db.health import checks
from dispatcher.engine.rules.life import (
    POISON_STEPS,
    Again,
    Back,
    Claimed,
    Failed,
    Held,
    Parked,
    Resend,
    Skipped,
    Succeeded,
)
from dispatcher.engine.store import claims, held, instances
from dispatcher.features.deliveries import store as deliveries
from tests.support import pauses
from tests.support.scene import HOLD, RESEND, Connection, Scene

KEY = Resend("key")
UNKNOWN = "unknown: no answer"
WITHHELD = "unknown: an earlier attempt may have gone out, and is not sent again: "
EXHAUSTED = Failed("exhausted: busy")
EXPIRE = "UPDATE dispatcher.delivery_state SET expires_at = now() - interval '1 s' WHERE id = $1"

leave = pytest.mark.parametrize("resend", [KEY, RESEND], ids=["key", "at_least_once"])


async def _unknown(scene: Scene, resend: Resend = KEY) -> Claimed:
    """Waits to be sent again."""
    (item,) = await scene.marked(resend=resend)
    assert await scene.flush((item, Again(0.0, UNKNOWN, resend)), spent=[item.token]) == []
    return item


async def _claimed(scene: Scene, item: Claimed, resend: Resend = KEY) -> Claimed:
    (again,) = await scene.claim(resend=resend)
    assert again.id == item.id
    return again


async def _marked(scene: Scene, item: Claimed, resend: Resend = KEY) -> Claimed:
    again = await _claimed(scene, item, resend)
    assert list(await scene.mark([again])) == [item.id]
    return again


async def _expired(scene: Scene, item: Claimed) -> None:
    await scene.database.fetch(EXPIRE, item.id)


async def _expires_in_the_queue(scene: Scene, item: Claimed) -> None:
    await _expired(scene, item)
    assert await held.expire(scene.database, 10) == 1
    assert await held.expire(scene.database, 10) == 0


async def _expires_while_it_is_parked(scene: Scene, item: Claimed) -> None:
    pause = (await pauses.pause(scene.database, "tenant", "default", "ann", "wait")).id
    await scene.flush((await _claimed(scene, item), Parked(pause)))
    await _expired(scene, item)
    assert await held.expire(scene.database, 10) == 1
    await pauses.resume(scene.database, "tenant", "default", "ann")
    assert await pauses.unpark(scene.database, 10) == 0


async def _expires_before_its_claim(scene: Scene, item: Claimed) -> None:
    """The claim says so, and the renderer."""
    await scene.flush((await _claimed(scene, item), Skipped("expired")))


async def _expires_before_its_mark(scene: Scene, item: Claimed) -> None:
    again = await _claimed(scene, item)
    await _expired(scene, item)
    assert await scene.mark([again]) == {}


async def _stopped(scene: Scene, item: Claimed) -> None:
    assert await deliveries.cancel(scene.database, item.id, "ann", "no") == "stopped"
    assert await deliveries.cancel(scene.database, item.id, "ann", "no") == "held"
    actions = await scene.database.fetch("SELECT action FROM dispatcher.operator_actions")
    assert [row["action"] for row in actions] == ["cancel"]


async def _is_cancelled_when_it_is_claimed(scene: Scene, item: Claimed) -> None:
    again = await _claimed(scene, item)
    await _stopped(scene, item)
    assert await scene.mark([again]) == {}


async def _is_cancelled_when_it_is_parked(scene: Scene, item: Claimed) -> None:
    pause = (await pauses.pause(scene.database, "tenant", "default", "ann", "wait")).id
    await scene.flush((await _claimed(scene, item), Parked(pause)))
    await _stopped(scene, item)
    await pauses.resume(scene.database, "tenant", "default", "ann")
    assert await pauses.unpark(scene.database, 10) == 0


async def _uses_up_its_attempts(scene: Scene, item: Claimed) -> None:
    again = await _marked(scene, item)
    await scene.flush((again, EXHAUSTED), spent=[again.token])


async def _cannot_be_rendered_any_more(scene: Scene, item: Claimed) -> None:
    again = await _claimed(scene, item)
    await scene.flush((again, Failed("template.body: over the limit")), spent=[again.token])


async def _is_not_served_any_more(scene: Scene, _item: Claimed) -> None:
    await scene.database.fetch("UPDATE dispatcher.instances SET channels = '{email}'")
    assert await claims.fail_unserved(scene.database, 10) == 1


async def _kills_its_owners(scene: Scene, item: Claimed) -> None:
    await scene.database.fetch("UPDATE dispatcher.delivery_state SET recoveries = 5 WHERE id = $1", item.id)
    (again,) = await scene.claim_recovered(POISON_STEPS[-1])
    assert again.id == item.id
    assert await scene.die() == instances.Recovered(claims=1, requeued=0, retried=0, held=1, poisoned=0)


ENDS: dict[str, Callable[[Scene, Claimed], Awaitable[None]]] = {
    "expired": _expires_in_the_queue,
    "expired, parked": _expires_while_it_is_parked,
    "expired, claimed": _expires_before_its_claim,
    "expired, to be marked": _expires_before_its_mark,
    "cancelled: no": _stopped,
    "cancelled: no, claimed": _is_cancelled_when_it_is_claimed,
    "cancelled: no, parked": _is_cancelled_when_it_is_parked,
    "exhausted: busy": _uses_up_its_attempts,
    "template.body: over the limit": _cannot_be_rendered_any_more,
    "channel: sms is served by no instance": _is_not_served_any_more,
    "poison: whoever worked on it died": _kills_its_owners,
}


async def _sound(scene: Scene) -> None:
    assert [found for name in checks.invariants() if (found := await checks.check(scene.database, name))] == []


async def _withheld(scene: Scene, item: Claimed, reason: str) -> None:
    row = await scene.row(item.id)
    assert (await scene.life(item.id), row["finished_at"]) == ("held", None)
    assert row["error"].startswith(WITHHELD + reason)
    assert await scene.claim() == []
    await _sound(scene)


@leave
@pytest.mark.parametrize("end", ENDS)
async def test_a_delivery_that_may_have_gone_out_is_held_where_it_would_end(
    scene: Scene, resend: Resend, end: str
) -> None:
    item = await _unknown(scene, resend)
    await ENDS[end](scene, item)
    await _withheld(scene, item, end.partition(",")[0])


@pytest.mark.parametrize("end", ENDS)
async def test_a_withheld_delivery_can_be_retried_by_an_operator(scene: Scene, end: str) -> None:
    item = await _unknown(scene)
    await ENDS[end](scene, item)
    await scene.database.fetch("UPDATE dispatcher.delivery_state SET expires_at = NULL, settle_after = NULL")
    assert await held.settle(scene.database, item.id, "requeue", "ann", "it never came") == "settled"
    rival = await Scene.open(scene.database)
    (again,) = await rival.claim(resend=KEY)
    assert await rival.mark([again]) == {item.id: (await scene.row(item.id))["attempt"]}
    await rival.flush((again, EXHAUSTED), spent=[again.token])
    assert await scene.life(item.id) == "failed", "an operator has said that the first one never came"
    await _sound(scene)


@pytest.mark.parametrize("end", ENDS)
async def test_late_evidence_settles_what_was_withheld(scene: Scene, end: str) -> None:
    item = await _unknown(scene)
    await ENDS[end](scene, item)
    assert await scene.late(item, Succeeded("m-1")) == "resolved"
    assert await scene.life(item.id) == "sent"
    await _sound(scene)


async def test_an_operator_may_say_that_it_has_failed(scene: Scene) -> None:
    item = await _unknown(scene)
    await _stopped(scene, item)
    assert await held.settle(scene.database, item.id, "failed", "ann", "it never came") == "settled"
    assert await scene.life(item.id) == "failed"
    assert await deliveries.reopen(scene.database, item.id, "ann", "now it shall") == "reopened"
    assert await deliveries.cancel(scene.database, item.id, "ann", "or not") == "cancelled"
    await _sound(scene)


async def test_a_refusal_under_the_key_proves_that_no_attempt_was_sent(scene: Scene) -> None:
    again = await _marked(scene, await _unknown(scene))
    await scene.flush((again, Failed("recipient: unknown", conclusive=True)), spent=[again.token])
    row = await scene.row(again.id)
    assert (row["status"], row["error"]) == ("failed", "recipient: unknown")
    await _sound(scene)


async def test_a_refusal_without_a_key_leaves_the_earlier_attempt_unknown(scene: Scene) -> None:
    again = await _marked(scene, await _unknown(scene, RESEND), RESEND)
    await scene.flush((again, Failed("recipient: unknown")), spent=[again.token])
    await _withheld(scene, again, "recipient: unknown")


async def test_a_late_refusal_of_the_second_attempt_does_not_end_the_first(scene: Scene) -> None:
    """Its owner was fenced during the call, and the channel sends nothing again any more."""
    again = await _marked(scene, await _unknown(scene), HOLD)
    await scene.die()
    assert await scene.late(again, Failed("recipient: unknown")) == "kept"
    assert await scene.life(again.id) == "held"


async def test_an_unknown_attempt_is_no_hindrance_to_what_is_known(scene: Scene) -> None:
    again = await _marked(scene, await _unknown(scene))
    await scene.flush((again, Succeeded("m-1")), spent=[again.token])
    assert await scene.life(again.id) == "sent"
    await _sound(scene)


@pytest.mark.parametrize("outcome", [EXHAUSTED, Skipped("expired")], ids=["failed", "skipped"])
async def test_a_delivery_without_an_unknown_outcome_ends(scene: Scene, outcome: Failed | Skipped) -> None:
    (item,) = await scene.marked(resend=KEY)
    await scene.flush((item, outcome), spent=[item.token])
    assert await scene.life(item.id) == ("failed" if outcome == EXHAUSTED else "skipped")


async def test_a_flush_that_is_run_again_leaves_what_was_withheld(scene: Scene) -> None:
    again = await _marked(scene, await _unknown(scene))
    await scene.flush((again, EXHAUSTED))
    before: Any = await scene.row(again.id)
    assert await scene.flush((again, EXHAUSTED)) == [(again, EXHAUSTED)]
    assert await scene.late(again, EXHAUSTED) == "kept"
    assert await scene.row(again.id) == before


async def test_a_delivery_is_not_settled_while_its_dead_owner_may_be_sending(scene: Scene) -> None:
    (item,) = await scene.marked(resend=KEY)
    assert (await scene.die()).retried == 1
    assert await deliveries.cancel(scene.database, item.id, "ann", "no") == "stopped"
    assert await held.settle(scene.database, item.id, "failed", "ann", "I am sure") == "early"
    await scene.database.fetch("UPDATE dispatcher.delivery_state SET settle_after = now()")
    assert await held.settle(scene.database, item.id, "failed", "ann", "I am sure") == "settled"


async def test_through_the_view_it_is_only_stopped(scene: Scene, connection: Connection) -> None:
    item = await _unknown(scene)
    (row,) = await connection.fetch(
        "UPDATE dispatcher.channel_outbox SET status = 'skipped', error = 'no' RETURNING status, skipped, error"
    )
    assert (row["status"], row["skipped"]) == ("queued", False)
    assert row["error"] == f"{WITHHELD}cancelled: no"
    await _withheld(scene, item, "cancelled: no")


async def test_late_evidence_names_the_provider_of_its_attempt(scene: Scene) -> None:
    scene.provider = "first"
    (item,) = await scene.marked()
    await scene.flush((item, Held(UNKNOWN)), spent=[item.token])
    assert await held.settle(scene.database, item.id, "requeue", "ann", "it never came") == "settled"
    scene.provider = "second"
    (again,) = await scene.claim()
    assert (again.bound_to, again.passed_by) == (None, None), "an operator has said so"
    await scene.mark([again])
    await scene.flush((again, Held(UNKNOWN)), spent=[again.token])
    assert await scene.late(item, Succeeded("m-1")) == "resolved"
    row = await scene.row(item.id)
    assert (row["status"], row["provider"], row["provider_message_id"]) == ("sent", "first", "m-1")
    await _sound(scene)


@leave
async def test_an_unknown_attempt_is_held_rather_than_marked_for_another_provider(scene: Scene, resend: Resend) -> None:
    item = await _unknown(scene, resend)
    again = await _claimed(scene, item, resend)
    assert again.bound_to == "capture"
    scene.provider = "another"
    assert await scene.mark([again]) == {}
    assert await scene.life(item.id) == "held"
    row = await scene.row(item.id)
    assert row["error"] == "unknown: an attempt may have gone out by capture, which the channel no longer has"
    assert (row["provider"], row["attempt"]) == ("capture", 1)
    await _sound(scene)


async def test_what_was_passed_on_says_by_whom_until_it_is_marked_again(scene: Scene) -> None:
    (item,) = await scene.marked()
    await scene.flush((item, Again(0.0, "the key is wrong", passed=True)), spent=[item.token])
    (again,) = await scene.claim()
    assert (again.passed_by, again.used) == ("capture", 0)
    await scene.flush((again, Back(0.0, "draining")), spent=[again.token])
    (once_more,) = await scene.claim()
    assert once_more.passed_by == "capture", "it was not marked meanwhile"
    await scene.mark([once_more])
    await scene.flush((once_more, Again(0.0, "busy")), spent=[once_more.token])
    (last,) = await scene.claim()
    assert (last.passed_by, last.used) == (None, 1)
    await _sound(scene)
