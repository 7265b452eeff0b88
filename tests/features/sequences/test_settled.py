"""Enrolments that go on without a walk: as one would have moved them, and only where nothing has come in between."""

import pytest

from dispatcher.engine.rules.life import Failed
from dispatcher.features.runs.walk import walking
from dispatcher.features.runs.walk.settling import Settled, settle
from dispatcher.features.runs.walk.worker import ANY_WAKE
from tests.features.sequences.steps import Sequences, sms

SETTLED_MAX = 50
PAUSE = "SELECT dispatcher.pause_sequence('drip')"
RESUME = "SELECT dispatcher.resume_sequence('drip')"


async def _settle(drip: Sequences) -> Settled:
    return await settle(drip.database, SETTLED_MAX)


async def _walked_alike(drip: Sequences, *runs: int) -> None:
    """The first of two enrolments, which was settled, stands as the second, which a walk has moved."""
    await drip.database.fetch("UPDATE dispatcher.runs SET state = state - 'then' WHERE id = $1", runs[1])
    await drip.stage.end()
    assert (await _settle(drip)).runs == 1
    await drip.stage.walk_on()
    settled, walked = [await drip.stage.run(run) for run in runs]
    assert settled["status"] == walked["status"]
    assert await drip.stage.cursor(runs[0]) == await drip.stage.cursor(runs[1])
    assert await drip.stage.count("wakes") == 0
    await drip.stage.sound()


@pytest.mark.parametrize("anchor", ["enrolment", "previous_step"])
async def test_it_waits_for_the_next_day_as_after_a_walk(drip: Sequences, anchor: str) -> None:
    await drip.publish(sms(1, 1), sms(2, 4, 9), anchor=anchor, time_zone="Europe/Berlin")
    ann, bea = await drip.enrolled("ann", "bea")
    await drip.days(1.5)
    await drip.stage.walk_on()
    await _walked_alike(drip, ann, bea)
    assert await drip.due_in_days(ann) == pytest.approx(await drip.due_in_days(bea), abs=0.001)
    assert (await drip.stage.run(ann))["status"] == "waiting"
    await drip.days(5)
    await drip.stage.play()
    for run in (ann, bea):
        assert await drip.logs(run) == [("s1", "completed"), ("s2", "completed")]


async def test_it_is_completed_behind_its_last_step(drip: Sequences) -> None:
    await drip.publish(sms(1, 0))
    ann, bea = await drip.enrolled("ann", "bea")
    await drip.stage.walk_on()
    await _walked_alike(drip, ann, bea)
    assert await drip.status(ann) == "completed"
    # It is over: the contact can be enrolled again.
    assert not (await drip.enrol("ann"))["duplicate"]


async def test_a_step_that_is_under_way_or_has_failed_is_not_settled(drip: Sequences) -> None:
    await drip.publish(sms(1, 0), sms(2, 3))
    (run,) = await drip.enrolled()
    await drip.stage.walk_on()
    await drip.database.fetch("SELECT dispatcher.wake_run($1, 2::smallint)", run)
    assert (await _settle(drip)).runs == 0
    await drip.stage.end(Failed("refused: no such number"))
    assert (await _settle(drip)).runs == 0
    assert await drip.stage.count("wakes") == 2
    await drip.stage.walk_on()
    assert await drip.status(run) == "paused"


async def test_a_step_whose_next_is_due_at_once_is_not_settled(drip: Sequences) -> None:
    await drip.publish(sms(1, 0), sms(2, 0))
    (run,) = await drip.enrolled()
    await drip.stage.walk_on()
    assert "then" not in await drip.stage.state(run)
    await drip.stage.play()
    assert await drip.logs(run) == [("s1", "completed"), ("s2", "completed")]


@pytest.mark.parametrize("whole", [True, False])
async def test_a_pause_since_the_step_was_ordered_moves_the_next_one(drip: Sequences, whole: bool) -> None:
    await drip.publish(sms(1, 0), sms(2, 2))
    (run,) = await drip.enrolled()
    await drip.stage.walk_on()
    if whole:
        await drip.database.value(PAUSE)
    else:
        await drip.stage.do("pause", run)
    await drip.days(5)
    await drip.stage.end()
    assert (await _settle(drip)).runs == 0
    if whole:
        await drip.database.value(RESUME)
    else:
        await drip.stage.do("resume", run)
    assert (await _settle(drip)).runs == 0
    await drip.stage.walk_on()
    # Two days were left when it was paused.
    assert await drip.due_in_days(run) == pytest.approx(2, abs=0.01)
    await drip.stage.sound()


async def test_one_that_is_locked_is_left_to_whoever_holds_it(drip: Sequences) -> None:
    await drip.publish(sms(1, 0))
    (run,) = await drip.enrolled()
    await drip.stage.walk_on()
    await drip.stage.end()
    async with drip.database.transaction() as connection:
        await connection.execute("SELECT FROM dispatcher.runs WHERE id = $1 FOR UPDATE", run)
        assert (await _settle(drip)).runs == 0
    settled = await _settle(drip)
    assert (settled.runs, settled.completed) == (1, 1)


async def test_what_comes_behind_the_settling_is_not_walked_before_the_next(drip: Sequences) -> None:
    await drip.publish(sms(1, 0))
    (run,) = await drip.enrolled()
    await drip.stage.walk_on()
    settled = await _settle(drip)
    assert settled.youngest == 0
    await drip.stage.end()
    async with drip.database.transaction() as connection:
        assert not await walking.take_batch(connection, 50, settled.youngest)
        assert [row["id"] for row in await walking.take_batch(connection, 50, ANY_WAKE)] == [run]


async def test_with_more_wakes_than_are_settled_at_once_none_is_young(drip: Sequences) -> None:
    for _ in range(2):
        await drip.database.fetch("SELECT dispatcher.wake_run($1, 2::smallint)", 1)
    assert (await settle(drip.database, 2)).youngest is None
    assert (await settle(drip.database, 3)).youngest is not None
