"""Pauses: of an enrolment, and of a sequence. Nothing is sent in them, what was due then comes once, the rest moves."""

import pytest

from dispatcher.engine.rules.life import Lane
from dispatcher.engine.store import pauses
from tests.features.runs.stage import Stage
from tests.features.sequences.steps import Sequences, sms

PAUSE = "SELECT dispatcher.pause_sequence('drip')"
RESUME = "SELECT dispatcher.resume_sequence('drip')"


async def _pause(drip: Sequences, run: int | None) -> None:
    if run is None:
        assert await drip.database.value(PAUSE) == "done"
    else:
        assert await drip.stage.do("pause", run) == "done"


async def _resume(drip: Sequences, run: int | None) -> None:
    if run is None:
        assert await drip.database.value(RESUME) == "done"
        await drip.stage.poison_worker.run_once()
    else:
        assert await drip.stage.do("resume", run) == "done"


@pytest.mark.parametrize("whole", [True, False])
async def test_an_overdue_step_comes_once_and_the_later_ones_move(drip: Sequences, whole: bool) -> None:
    await drip.publish(sms(1, 0), sms(2, 2), sms(3, 7))
    (run,) = await drip.enrolled()
    await drip.stage.play()
    await drip.days(1)
    await _pause(drip, None if whole else run)
    assert await drip.status(run) == "paused"
    await drip.days(5)
    await drip.stage.play()
    assert await drip.logs(run) == [("s1", "completed")]
    await _resume(drip, None if whole else run)
    assert await drip.status(run) == "active"
    await drip.stage.play()
    assert await drip.logs(run) == [("s1", "completed"), ("s2", "completed")]
    # It was due a day from now, and the pause was five days long.
    assert await drip.due_in_days(run) == pytest.approx(6, abs=0.01)
    await drip.days(6.1)
    await drip.stage.play()
    assert await drip.logs(run) == [("s1", "completed"), ("s2", "completed"), ("s3", "completed")]
    await drip.stage.sound()


@pytest.mark.parametrize("whole", [True, False])
async def test_a_step_that_was_not_due_moves_by_the_pause(drip: Sequences, whole: bool) -> None:
    await drip.publish(sms(1, 0), sms(2, 4))
    (run,) = await drip.enrolled()
    await drip.stage.play()
    await drip.days(1)
    await _pause(drip, None if whole else run)
    await drip.days(2)
    await _resume(drip, None if whole else run)
    await drip.stage.play()
    # A sequence's pause touches no enrolment before it is due.
    await drip.days(1.1)
    await drip.stage.play()
    assert await drip.logs(run) == [("s1", "completed")]
    assert await drip.due_in_days(run) == pytest.approx(1.9, abs=0.01)
    await drip.days(2)
    await drip.stage.play()
    assert await drip.logs(run) == [("s1", "completed"), ("s2", "completed")]


async def test_a_pause_within_a_pause_counts_once(drip: Sequences) -> None:
    await drip.publish(sms(1, 0), sms(2, 10))
    (run,) = await drip.enrolled()
    await drip.stage.play()
    await _pause(drip, None)
    await drip.days(1)
    await _pause(drip, run)
    await drip.days(1)
    await _resume(drip, run)
    await drip.stage.play()
    await drip.days(1)
    await _resume(drip, None)
    await drip.stage.play()
    assert await drip.due_in_days(run) == pytest.approx(10, abs=0.01)


async def test_resuming_a_sequence_leaves_what_was_paused_by_hand(drip: Sequences) -> None:
    await drip.publish(sms(1, 1))
    by_hand, other, parked = await drip.enrolled("ann", "bob", "cid")
    await _pause(drip, by_hand)
    await _pause(drip, None)
    await drip.days(2)
    await drip.stage.walk_on()
    await _pause(drip, parked)
    await _resume(drip, None)
    await drip.stage.play()
    assert [await drip.status(one) for one in (by_hand, other, parked)] == ["paused", "completed", "paused"]
    await _resume(drip, by_hand)
    await drip.stage.play()
    assert await drip.logs(by_hand) == [("s1", "completed")]


async def test_what_is_on_its_way_waits_for_the_end_of_the_pause(drip: Sequences) -> None:
    """It is claimed with its sequence, which the mark looks for among the pauses."""
    await drip.publish(sms(1, 0), sms(2, 0))
    (run,) = await drip.enrolled()
    await drip.stage.walk_on()
    sequence = await drip.database.value("SELECT id FROM dispatcher.sequences")
    (item,) = await drip.stage.scene.claim(1, lane=Lane.BULK)
    assert item.sequence_id == sequence
    assert (await pauses.current(drip.database)).parks(item) is None
    await _pause(drip, None)
    stopped = await pauses.current(drip.database)
    assert stopped.parks(item) is not None
    assert stopped.parks_some()
    await _resume(drip, None)
    assert (await pauses.current(drip.database)).parks(item) is None
    assert await drip.status(run) == "active"


async def test_a_result_that_comes_in_a_pause_sends_nothing_more(drip: Sequences) -> None:
    await drip.publish(sms(1, 0), sms(2, 0))
    (run,) = await drip.enrolled()
    await drip.stage.walk_on()
    await _pause(drip, None)
    await drip.stage.end()
    await drip.stage.walk_on()
    assert await drip.logs(run) == [("s1", "completed")]
    await _resume(drip, None)
    await drip.stage.play()
    assert await drip.logs(run) == [("s1", "completed"), ("s2", "completed")]
    await drip.stage.sound()


async def test_an_enrolment_that_was_parked_as_the_pause_ended_is_freed(drip: Sequences) -> None:
    """The walk has read the pause, and parks behind its end."""
    await drip.publish(sms(1, 0))
    (run,) = await drip.enrolled()
    await _pause(drip, None)
    pause = await drip.database.value("SELECT id FROM dispatcher.pauses")
    await drip.database.value(RESUME)
    await drip.database.fetch("UPDATE dispatcher.runs SET available_at = NULL, parked_by = $1", pause)
    await drip.stage.poison_worker.run_once()
    await drip.stage.play()
    assert await drip.status(run) == "completed"


async def test_poison_pauses(drip: Sequences, stage: Stage) -> None:
    await drip.publish(sms(1, 0))
    (run,) = await drip.enrolled()
    await drip.database.fetch("UPDATE dispatcher.runs SET takes = 5")
    await stage.poison_worker.run_once()
    seen = await drip.enrollment(run)
    assert seen["status"] == "paused"
    assert "poison" in seen["reason"]
    await stage.sound()
    await _resume(drip, run)
    await stage.play()
    assert await drip.status(run) == "completed"


async def test_filters_pause_resume_and_cancel(drip: Sequences) -> None:
    await drip.publish(sms(1, 1))
    await drip.contact("ann", tags=["vip"])
    await drip.contact("bob")
    runs = [(await drip.enrol(one))["enrollment_id"] for one in ("ann", "bob")]
    change = "SELECT dispatcher.change_enrollments('default', 'default', 'drip', $1, $2, '', 'ann', 100)"
    vips = '{"tags": ["vip"]}'
    assert await drip.database.value(change, "pause", vips) == 1
    assert await drip.database.value(change, "pause", vips) == 0
    assert [await drip.status(one) for one in runs] == ["paused", "active"]
    assert await drip.database.value(change, "resume", None) == 1
    assert await drip.database.value(change, "cancel", '{"contacts": ["bob"]}') == 1
    assert [await drip.status(one) for one in runs] == ["active", "cancelled"]
    assert await drip.stage.count("pauses") == 0
