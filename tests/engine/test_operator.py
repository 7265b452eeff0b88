"""Actions of operators on a delivery: until when they are possible, and their log."""

from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from dispatcher.engine.rules.life import Again, Failed, Skipped, Succeeded
from dispatcher.features.deliveries import store as deliveries
from tests.support.scene import Scene

LATER = datetime(2040, 1, 1, tzinfo=UTC)


async def _actions(scene: Scene) -> list[tuple[str, str, str, str]]:
    rows = await scene.database.fetch("SELECT * FROM dispatcher.operator_actions ORDER BY id")
    return [(row["actor"], row["action"], row["status_before"], row["reason"]) for row in rows]


async def test_a_waiting_delivery_is_cancelled_with_its_actor(scene: Scene) -> None:
    (waiting,) = await scene.write(1)
    assert await deliveries.cancel(scene.database, waiting, "ann", "wrong list") == "cancelled"
    row = await scene.row(waiting)
    assert (row["status"], row["error"]) == ("skipped", "cancelled: wrong list")
    assert await _actions(scene) == [("ann", "cancel", "queued", "wrong list")]
    assert await scene.claim() == []


async def test_a_waiting_delivery_is_moved_with_its_actor(scene: Scene) -> None:
    (waiting,) = await scene.write(1)
    assert await deliveries.move(scene.database, waiting, LATER, "ann", "too early") == "moved"
    assert (await scene.row(waiting))["run_at"] == LATER
    assert await _actions(scene) == [("ann", "move", "queued", "too early")]


async def test_nothing_is_done_to_what_is_being_sent_or_held(scene: Scene) -> None:
    (item,) = await scene.marked()
    assert await deliveries.cancel(scene.database, item.id, "ann", "") == "sending"
    assert await deliveries.move(scene.database, item.id, LATER, "ann", "") == "sending"
    await scene.die()
    assert await deliveries.cancel(scene.database, item.id, "ann", "") == "held"
    assert await deliveries.move(scene.database, item.id, LATER, "ann", "") == "held"
    assert await deliveries.reopen(scene.database, item.id, "ann", "") == "queued"
    assert await scene.life(item.id) == "held"
    assert await _actions(scene) == []


async def test_nothing_is_done_to_what_was_sent(scene: Scene) -> None:
    (item,) = await scene.marked()
    await scene.flush((item, Succeeded("m-1")))
    assert await deliveries.cancel(scene.database, item.id, "ann", "") == "sent"
    assert await deliveries.move(scene.database, item.id, LATER, "ann", "") == "sent"
    assert await deliveries.reopen(scene.database, item.id, "ann", "") == "sent"
    assert await _actions(scene) == []


async def test_actions_on_a_missing_delivery_answer_unknown(scene: Scene) -> None:
    assert await deliveries.cancel(scene.database, 404, "ann", "") == "unknown"
    assert await deliveries.move(scene.database, 404, LATER, "ann", "") == "unknown"
    assert await deliveries.reopen(scene.database, 404, "ann", "") == "unknown"


async def test_an_action_needs_an_actor(scene: Scene) -> None:
    (waiting,) = await scene.write(1)
    with pytest.raises(asyncpg.CheckViolationError):
        await deliveries.cancel(scene.database, waiting, "", "no name")
    assert await scene.life(waiting) == "pending"


async def test_a_failed_delivery_can_be_reopened_with_new_attempts(scene: Scene) -> None:
    (item,) = await scene.marked(max_attempts=2)
    await scene.flush((item, Again(0.0, "busy")))
    await scene.due_now()
    (item,) = await scene.claim()
    await scene.mark([item])
    await scene.flush((item, Failed("exhausted: busy")))
    assert await deliveries.reopen(scene.database, item.id, "ann", "the provider is back") == "reopened"
    (again,) = await scene.claim()
    assert (again.used, again.max_attempts) == (0, 2)
    assert await scene.mark([again]) == {item.id: 3}
    kept = await scene.database.fetch("SELECT attempt, outcome FROM dispatcher.delivery_attempts ORDER BY attempt")
    assert [tuple(one) for one in kept] == [(1, "retry"), (2, "failed")]
    assert await _actions(scene) == [("ann", "reopen", "failed", "the provider is back")]


async def test_a_delivery_skipped_before_any_attempt_can_be_reopened(scene: Scene) -> None:
    await scene.write(1)
    (item,) = await scene.claim()
    await scene.flush((item, Skipped("expired")))
    assert await deliveries.reopen(scene.database, item.id, "ann", "send it all the same") == "reopened"
    assert await scene.life(item.id) == "pending"
    assert await scene.value("SELECT count(*) FROM dispatcher.delivery_attempts") == 0


async def test_a_result_of_before_the_reopening_ends_nothing_twice(scene: Scene) -> None:
    (item,) = await scene.marked()
    await scene.flush((item, Failed("no")))
    await deliveries.reopen(scene.database, item.id, "ann", "again")
    assert len(await scene.flush((item, Failed("no")))) == 1
    assert await scene.late(item, Failed("no")) in {"applied", "kept"}
    assert await scene.life(item.id) == "pending"


async def test_the_whole_trace_of_a_delivery_can_be_shown(scene: Scene) -> None:
    (item,) = await scene.marked()
    await scene.flush((item, Again(0.0, "busy")))
    await deliveries.cancel(scene.database, item.id, "ann", "enough")
    shown: dict[str, Any] | None = await deliveries.show(scene.database, item.id)
    assert shown is not None
    assert (shown["life"], shown["attempt"]) == ("skipped", 1)
    assert [one["reason"] for one in shown["attempts"]] == ["busy"]
    assert [one["action"] for one in shown["actions"]] == ["cancel"]
    assert shown["evidence"] == []


async def test_a_batch_returns_the_holder_of_each_key(scene: Scene) -> None:
    (first,) = await scene.write(1)
    key = await scene.value("SELECT idempotency_key FROM dispatcher.deliveries")
    new = deliveries.New(idempotency_key="new", channel="sms", recipient="+4917012345", template='{"body": "x"}')
    old = deliveries.New(idempotency_key=key, channel="sms", recipient="+4917012345", template='{"body": "other"}')
    answers = await deliveries.insert(scene.database, [new, old, new])
    assert [answer.duplicate for answer in answers] == [False, True, True]
    assert answers[1].id == first
    assert answers[0].id == answers[2].id
    assert await scene.value("SELECT count(*) FROM dispatcher.deliveries") == 2


async def test_the_same_key_of_another_tenant_is_another_delivery(scene: Scene) -> None:
    one = deliveries.New(idempotency_key="k", channel="sms", recipient="+4917012345", template='{"body": "x"}')
    other = deliveries.New(
        idempotency_key="k", channel="sms", recipient="+4917012345", template='{"body": "x"}', tenant_id="other"
    )
    assert [answer.duplicate for answer in await deliveries.insert(scene.database, [one, other])] == [False, False]
