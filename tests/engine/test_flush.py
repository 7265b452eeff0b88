"""The flush: every ending as it is written, fenced by token, and harmless when it is run again."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dispatcher.engine.rules.life import Again, Back, Claimed, Failed, Held, Lost, Outcome, Skipped, Succeeded
from dispatcher.features.deliveries import store as deliveries
from tests.support.scene import RESEND, Scene

ENDINGS: dict[str, Outcome] = {
    "succeeded": Succeeded("m-1"),
    "failed": Failed("recipient: unknown"),
    "skipped": Skipped("expired"),
    "again": Again(60.0, "busy"),
    "back": Back(60.0, "throttled"),
    "held": Held("unknown: no answer"),
}
each_ending = pytest.mark.parametrize("outcome", ENDINGS.values(), ids=ENDINGS)


@pytest.mark.parametrize(
    ("channel", "status"),
    [("email", "sent"), ("sms", "sent"), ("http", "sent"), ("voice", "called"), ("social", "posted")],
)
async def test_accepted_deliveries_get_their_channels_status(scene: Scene, channel: str, status: str) -> None:
    await scene.write(1, channel=channel)
    (item,) = await scene.claim(channel=channel)
    await scene.mark([item])
    assert await scene.flush((item, Succeeded("m-1"))) == []
    row = await scene.row(item.id)
    assert (row["status"], row["provider_message_id"], row["attempt"]) == (status, "m-1", 1)
    assert row["finished_at"] is not None


@pytest.mark.parametrize(("name", "status"), [("failed", "failed"), ("skipped", "skipped")])
async def test_a_delivery_that_will_not_be_sent_ends_with_its_reason(scene: Scene, name: str, status: str) -> None:
    (item,) = await scene.marked()
    outcome = ENDINGS[name]
    await scene.flush((item, outcome))
    row = await scene.row(item.id)
    assert (row["status"], row["error"]) == (status, getattr(outcome, "reason", None))
    assert row["finished_at"] is not None


async def test_a_retry_is_ready_later_and_its_attempt_is_kept(scene: Scene) -> None:
    (item,) = await scene.marked()
    await scene.flush((item, Again(60.0, "busy")))
    row = await scene.row(item.id)
    (kept,) = await scene.database.fetch("SELECT * FROM dispatcher.delivery_attempts")
    assert await scene.life(item.id) == "pending"
    assert (row["attempt"], row["token"], row["marked"], row["error"]) == (1, None, False, "busy")
    assert (kept["delivery_id"], kept["attempt"], kept["outcome"], kept["reason"]) == (item.id, 1, "retry", "busy")
    assert kept["next_at"] == row["run_at"] == kept["ended_at"] + timedelta(seconds=60)


async def test_a_delivery_that_goes_back_uses_no_attempt(scene: Scene) -> None:
    (item,) = await scene.marked()
    await scene.flush((item, Back(60.0, "throttled")))
    row = await scene.row(item.id)
    assert (row["attempt"], row["token"], row["marked"], row["error"]) == (0, None, False, None)
    assert await scene.value("SELECT count(*) FROM dispatcher.delivery_attempts") == 0


async def test_an_unmarked_delivery_goes_back_without_an_attempt(scene: Scene) -> None:
    await scene.write(1)
    (item,) = await scene.claim()
    await scene.flush((item, Back(0.0, "draining")))
    assert (await scene.row(item.id))["attempt"] == 0
    assert await scene.life(item.id) == "pending"


async def test_going_back_makes_nothing_due_earlier_than_it_was(scene: Scene) -> None:
    (item,) = await scene.marked()
    before = (await scene.row(item.id))["run_at"]
    await scene.flush((item, Back(0.0, "draining")))
    assert (await scene.row(item.id))["run_at"] >= before


async def test_held_keeps_its_token_and_its_attempt(scene: Scene) -> None:
    (item,) = await scene.marked()
    await scene.flush((item, Held("unknown: no answer")))
    row = await scene.row(item.id)
    assert (row["held"], row["token"], row["attempt"], row["error"]) == (True, item.token, 1, "unknown: no answer")
    assert await scene.life(item.id) == "held"


async def test_held_deliveries_are_never_claimed(scene: Scene) -> None:
    (item,) = await scene.marked()
    await scene.flush((item, Held("unknown: no answer")))
    assert await scene.claim() == []
    await scene.die()
    assert await scene.life(item.id) == "held"


async def test_a_flush_leaves_lost_claims_alone(scene: Scene) -> None:
    (item,) = await scene.marked()
    assert await scene.flush((item, Lost())) == []
    assert await scene.life(item.id) == "sending"


@each_ending
async def test_a_flush_that_is_run_again_changes_nothing(scene: Scene, outcome: Outcome) -> None:
    """The answer to a COMMIT was lost, so the flush is run again."""
    (item,) = await scene.marked()
    await scene.flush((item, outcome))
    before = await _everything(scene)
    # What was accepted is seen to stand as written.
    assert await scene.flush((item, outcome)) == ([] if type(outcome) is Succeeded else [(item, outcome)])
    assert await _everything(scene) == before


@pytest.mark.parametrize("name", ["succeeded", "failed", "again", "held"])
async def test_a_result_that_our_flush_wrote_is_not_a_late_result(scene: Scene, name: str) -> None:
    (item,) = await scene.marked()
    await scene.flush((item, ENDINGS[name]))
    before = await _everything(scene)
    assert await scene.late(item, ENDINGS[name]) == "applied"
    assert await _everything(scene) == before


@each_ending
async def test_a_flush_under_another_token_changes_nothing(scene: Scene, outcome: Outcome) -> None:
    (item,) = await scene.marked()
    await scene.flush((item, Back(0.0, "not now")))
    (ours,) = await scene.claim()
    await scene.mark([ours])
    before = await _everything(scene)
    assert await scene.flush((item, outcome)) == [(item, outcome)]
    assert await _everything(scene) == before


async def test_nothing_that_was_not_marked_can_be_accepted(scene: Scene) -> None:
    await scene.write(1)
    (item,) = await scene.claim()
    assert len(await scene.flush((item, Succeeded("m-1")))) == 1
    assert await scene.life(item.id) == "claimed"


async def test_one_flush_writes_every_kind_of_ending(scene: Scene) -> None:
    items = await scene.marked(len(ENDINGS))
    results = list(zip(items, ENDINGS.values(), strict=True))
    assert await scene.flush(*results, spent=[items[0].token]) == []
    assert await scene.lives([item.id for item in items]) == ["sent", "failed", "skipped", "pending", "pending", "held"]
    assert await scene.value("SELECT count(*) FROM dispatcher.claims") == 0


async def test_one_fenced_result_fences_no_other(scene: Scene) -> None:
    items = await scene.marked(3)
    await scene.flush((items[1], Back(60.0, "not now")))
    fenced = await scene.flush(*((item, Succeeded("m")) for item in items))
    assert [item for item, _ in fenced] == [items[1]]
    assert await scene.lives([item.id for item in items]) == ["sent", "pending", "sent"]


@pytest.mark.parametrize("outcome", [Succeeded("m"), Again(60.0, "busy")], ids=["accepted", "again"])
async def test_of_two_results_of_one_delivery_only_the_earlier_claims_is_fenced(scene: Scene, outcome: Outcome) -> None:
    """It was moved while we had it, and came back to us."""
    await scene.write(1)
    (earlier,) = await scene.claim()
    await deliveries.move(scene.database, earlier.id, datetime.now(UTC), "ann", "at once")
    (later,) = await scene.claim()
    await scene.mark([later])
    back = (earlier, Back(0.0, "draining"))
    assert await scene.flush(back, (later, outcome)) == [back]


async def test_attempts_go_on_counting_over_retries(scene: Scene) -> None:
    (item,) = await scene.marked()
    for attempt in (1, 2, 3):
        await scene.flush((item, Again(0.0, f"busy {attempt}")))
        await scene.due_now()
        (item,) = await scene.claim()
        assert item.used == attempt
        assert await scene.mark([item]) == {item.id: attempt + 1}
    assert [kept["attempt"] for kept in await scene.database.fetch("TABLE dispatcher.delivery_attempts")] == [1, 2, 3]


async def _everything(scene: Scene) -> list[Any]:
    tables = ("delivery_state", "delivery_attempts", "delivery_evidence")
    return [list(await scene.database.fetch(f"TABLE dispatcher.{table}")) for table in tables]


@pytest.mark.parametrize("verdict", ["accepted", "refused"])
async def test_a_late_result_resolves_what_is_held(scene: Scene, verdict: str) -> None:
    (item,) = await scene.marked()
    await scene.die()
    assert await scene.life(item.id) == "held"
    late: Outcome = Succeeded("m-1") if verdict == "accepted" else Failed("recipient: unknown")
    assert await scene.late(item, late) == "resolved"
    assert await scene.life(item.id) == ("sent" if verdict == "accepted" else "failed")
    await _evidence_is(scene, item, verdict, resolved=True)


@pytest.mark.parametrize(
    "outcome", [Back(0.0, "the licence ran out"), Again(0.0, "busy")], ids=["not_called", "not_taken"]
)
async def test_late_news_that_nothing_was_sent_frees_what_is_held(scene: Scene, outcome: Outcome) -> None:
    (item,) = await scene.marked()
    await scene.die()
    assert await scene.life(item.id) == "held"
    await scene.late(item, outcome)
    assert await scene.life(item.id) == "pending"


async def test_a_late_acceptance_ends_what_waits_to_be_sent_again(scene: Scene) -> None:
    (item,) = await scene.marked(resend=RESEND)
    await scene.die()
    assert await scene.life(item.id) == "pending"
    assert await scene.late(item, Succeeded("m-1")) == "resolved"
    assert await scene.life(item.id) == "sent"
    rival = await Scene.open(scene.database)
    assert await rival.claim() == []


async def test_a_late_acceptance_ends_what_was_claimed_again_and_not_yet_marked(scene: Scene) -> None:
    (item,) = await scene.marked(resend=RESEND)
    await scene.die()
    rival = await Scene.open(scene.database)
    again = await rival.claim()
    assert await scene.late(item, Succeeded("m-1")) == "resolved"
    assert await rival.mark(again) == {}


@pytest.mark.parametrize("late", [Succeeded("m-1"), Failed("no")], ids=["accepted", "refused"])
async def test_a_late_result_is_kept_beside_what_is_being_sent_again(scene: Scene, late: Outcome) -> None:
    (item,) = await scene.marked(resend=RESEND)
    await scene.die()
    rival = await Scene.open(scene.database)
    (again,) = await rival.claim()
    await rival.mark([again])
    assert await scene.late(item, late) == "kept"
    assert await scene.life(item.id) == "sending"
    assert await rival.flush((again, Succeeded("m-2"))) == []
    await _evidence_is(scene, item, "accepted" if isinstance(late, Succeeded) else "refused", resolved=False)


async def test_a_late_result_changes_no_end(scene: Scene) -> None:
    (item,) = await scene.marked(resend=RESEND)
    await scene.die()
    rival = await Scene.open(scene.database)
    (again,) = await rival.claim()
    await rival.mark([again])
    await rival.flush((again, Failed("recipient: unknown", conclusive=True)))
    assert await scene.late(item, Succeeded("m-1")) == "kept"
    assert await scene.life(item.id) == "failed"


async def _evidence_is(scene: Scene, item: Claimed, verdict: str, *, resolved: bool) -> None:
    (kept,) = await scene.database.fetch("SELECT * FROM dispatcher.delivery_evidence")
    assert (kept["delivery_id"], kept["token"]) == (item.id, item.token)
    assert (kept["verdict"], kept["resolved"]) == (verdict, resolved)
