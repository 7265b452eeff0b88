"""Versions: what is published stays, and enrolments are moved only when somebody says so."""

import asyncio

import asyncpg
import pytest

from dispatcher.features.sequences import enrolment_store as enrolments
from dispatcher.features.sequences import store
from dispatcher.features.sequences.rules import Settings, compile_sequence
from dispatcher.plans.plan import Plan
from tests.features.sequences.steps import HERE, KNOWN, Sequences, sms
from tests.support.waits import until_blocked


async def _move(drip: Sequences, start: int = 1, end: int = 2) -> tuple[int, int]:
    row = await enrolments.move(drip.database, HERE, "drip", start, end, "ann", after=0, most=100)
    return row["moved"], row["completed"]


async def test_an_enrolment_stays_in_its_version(drip: Sequences) -> None:
    assert await drip.publish(sms(1, 0), sms(2, 1)) == 1
    (run,) = await drip.enrolled("ann")
    await drip.stage.play()
    assert await drip.publish(sms(1, 0), sms(2, 1, content="changed"), sms(3, 2)) == 2
    assert await drip.publish() == 2
    (other,) = await drip.enrolled("bob")
    await drip.stage.play()
    await drip.days(3)
    await drip.stage.play()
    await drip.stage.play()
    assert await drip.logs(run) == [("s1", "completed"), ("s2", "completed")]
    assert (await drip.stage.deliveries(run))[1]["template"] == '{"body": "Hello {{ contact.name }}"}'
    assert [name for name, _ in await drip.logs(other)] == ["s1", "s2", "s3"]


async def test_a_moved_enrolment_goes_on_behind_what_it_has_got(drip: Sequences) -> None:
    await drip.publish(sms(1, 0), sms(2, 2), sms(4, 9))
    (run,) = await drip.enrolled()
    await drip.stage.play()
    await drip.days(2)
    await drip.stage.play()
    # Two steps that it has got, in another order; one whose day has passed, and one that comes before the old next.
    await drip.publish(
        sms(1, 0, name="s2"),
        sms(2, 7, name="s1"),
        sms(3, 1, name="missed"),
        sms(4, 5, name="new"),
        sms(5, 9, name="s4"),
    )
    (group,) = await enrolments.preview_move(drip.database, HERE, "drip", 1, 2)
    names = {one.id: one.name for one in (await _found(drip)).steps}
    assert (names[group["step"]], names[group["next_step"]], group["enrollments"]) == ("s4", "new", 1)
    assert await _move(drip) == (1, 0)
    await drip.stage.play()
    assert await drip.due_in_days(run) == pytest.approx(3, abs=0.01)
    await drip.days(10)
    await drip.stage.play()
    await drip.stage.play()
    assert [name for name, _ in await drip.logs(run)] == ["s1", "s2", "new", "s4"]
    assert await drip.status(run) == "completed"
    await drip.stage.sound()


async def _found(drip: Sequences) -> store.Found:
    found = await store.find(drip.database, HERE, "drip")
    assert found is not None
    return found


async def test_a_move_to_a_version_without_a_step_left_completes(drip: Sequences) -> None:
    await drip.publish(sms(1, 0), sms(2, 5))
    (run,) = await drip.enrolled()
    await drip.stage.play()
    await drip.publish(sms(1, 0))
    assert await _move(drip) == (0, 1)
    assert await drip.status(run) == "completed"
    assert await drip.logs(run) == [("s1", "completed")]
    await drip.stage.sound()


async def test_who_is_sending_is_left_alone(drip: Sequences) -> None:
    await drip.publish(sms(1, 0), sms(2, 5))
    (run,) = await drip.enrolled()
    await drip.stage.walk_on()
    await drip.publish(sms(1, 0), sms(2, 6))
    assert await _move(drip) == (0, 0)
    await drip.stage.play()
    assert (await drip.enrollment(run))["version"] == 1
    assert await _move(drip) == (1, 0)


async def test_a_step_that_waits_and_is_due_is_not_lost_by_a_move(drip: Sequences) -> None:
    await drip.publish(sms(1, 0), sms(2, 2))
    (run,) = await drip.enrolled()
    await drip.stage.play()
    await drip.days(3)
    await drip.publish(sms(1, 0), sms(2, 2), sms(3, 9))
    assert await _move(drip) == (1, 0)
    await drip.stage.play()
    assert await drip.logs(run) == [("s1", "completed"), ("s2", "completed")]


async def test_a_paused_enrolment_is_moved_and_stays_paused(drip: Sequences) -> None:
    await drip.publish(sms(1, 2))
    (run,) = await drip.enrolled()
    assert await drip.stage.do("pause", run) == "done"
    await drip.publish(sms(1, 2), sms(2, 4))
    assert await _move(drip) == (1, 0)
    assert await drip.status(run) == "paused"
    await drip.days(1)
    assert await drip.stage.do("resume", run) == "done"
    await drip.stage.play()
    assert await drip.due_in_days(run) == pytest.approx(2, abs=0.01)


async def test_a_draft_that_was_changed_since_it_was_compiled_is_not_published(drip: Sequences) -> None:
    await drip.put(sms(1, 0))
    found = await _found(drip)
    plan = compile_sequence("drip", found.settings, found.steps, KNOWN)
    assert isinstance(plan, Plan)
    await drip.put(sms(1, 1))
    assert await store.publish(drip.database, HERE, found, plan, "ann") == ("stale", 0)


async def test_a_step_keeps_its_id_by_its_name(drip: Sequences) -> None:
    await drip.put(sms(1, 0), sms(2, 1))
    before = {one.name: one.id for one in (await _found(drip)).steps}
    await drip.put(sms(2, 0), sms(1, 1), sms(3, 0))
    after = {one.name: one.id for one in (await _found(drip)).steps}
    assert {name: after[name] for name in before} == before
    answer, revision = await store.put(drip.database, HERE, "drip", Settings(), (await _found(drip)).steps, "ann")
    assert answer == "same"
    stale = await store.put(drip.database, HERE, "drip", Settings(), [sms(1, 0)], "ann", (revision or 0) - 1)
    assert stale[0] == "stale"


async def test_an_open_enrolment_of_an_application_keeps_no_pause_and_no_publication_waiting(
    drip: Sequences, url: str
) -> None:
    await drip.publish(sms(1, 1))
    await drip.contact()
    app = await asyncpg.connect(url)
    try:
        transaction = app.transaction()
        await transaction.start()
        await app.fetchrow("SELECT * FROM dispatcher.enrol('drip', 'ann')")
        assert await drip.database.value("SELECT dispatcher.pause_sequence('drip')") == "done"
        assert await drip.publish(sms(1, 2)) == 2
        # A deletion waits: what was enrolled belongs to nothing else.
        delete = asyncio.ensure_future(store.delete(drip.database, HERE, "drip", None, "ann"))
        await until_blocked(app)
        await transaction.commit()
        assert await delete == "running"
    finally:
        await app.close()


async def test_a_move_waits_for_the_walk_of_its_enrolment(drip: Sequences, url: str) -> None:
    """The walk holds the run: the move sees where it has come, and leaves it alone while it sends."""
    await drip.publish(sms(1, 0), sms(2, 5))
    (run,) = await drip.enrolled()
    await drip.publish(sms(1, 0), sms(2, 6))
    walker = await asyncpg.connect(url)
    try:
        transaction = walker.transaction()
        await transaction.start()
        await walker.execute("SELECT FROM dispatcher.runs WHERE id = $1 FOR UPDATE", run)
        moving = asyncio.ensure_future(_move(drip))
        await until_blocked(walker)
        await walker.execute(
            """UPDATE dispatcher.runs SET status = 'running', available_at = NULL,
                      state = '{"cursor": {"1": {"standing": "sending", "since": 1}}}' WHERE id = $1""",
            run,
        )
        await transaction.commit()
        assert await moving == (0, 0)
    finally:
        await walker.close()
