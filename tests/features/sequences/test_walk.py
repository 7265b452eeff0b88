"""The walk of enrolments: each step at its time, once, to whoever the contact is by then."""

import pytest

from dispatcher.engine.rules.life import Failed
from tests.features.sequences.steps import Sequences, sms


async def test_a_contact_gets_day_0_now_and_day_3_later(drip: Sequences) -> None:
    await drip.publish(sms(1, 0), sms(2, 3))
    (run,) = await drip.enrolled("ann")
    await drip.stage.play()
    assert await drip.logs(run) == [("s1", "completed")]
    assert await drip.due_in_days(run) == pytest.approx(3, abs=0.01)
    await drip.days(2.9)
    await drip.stage.play()
    assert await drip.logs(run) == [("s1", "completed")]
    await drip.days(0.2)
    await drip.stage.play()
    assert await drip.logs(run) == [("s1", "completed"), ("s2", "completed")]
    assert await drip.status(run) == "completed"
    await drip.stage.sound()


async def test_enrolling_twice_answers_the_first_and_again_after_the_end(drip: Sequences) -> None:
    await drip.publish(sms(1, 0))
    await drip.contact()
    first, second = await drip.enrol(), await drip.enrol()
    assert (first["duplicate"], second["duplicate"]) == (False, True)
    assert first["enrollment_id"] == second["enrollment_id"]
    await drip.stage.play()
    third = await drip.enrol()
    assert not third["duplicate"]
    await drip.stage.play()
    assert await drip.logs(third["enrollment_id"]) == [("s1", "completed")]


async def test_days_from_the_enrolment_and_from_the_step_before(drip: Sequences) -> None:
    await drip.publish(sms(1, 1), sms(2, 3), name="fixed")
    await drip.publish(sms(1, 1), sms(2, 3), name="relative", anchor="previous_step")
    await drip.contact()
    fixed = (await drip.enrol(name="fixed"))["enrollment_id"]
    relative = (await drip.enrol(name="relative"))["enrollment_id"]
    # The first step comes a day late.
    await drip.days(2)
    await drip.stage.play()
    assert await drip.logs(fixed) == await drip.logs(relative) == [("s1", "completed")]
    assert await drip.due_in_days(fixed) == pytest.approx(1, abs=0.01)
    assert await drip.due_in_days(relative) == pytest.approx(3, abs=0.01)


async def test_who_has_no_address_is_skipped_and_the_walk_goes_on(drip: Sequences) -> None:
    await drip.publish(sms(1, 0), sms(2, 0, channel="push"), sms(3, 0, channel="push"), sms(4, 0), sms(5, 2))
    (run,) = await drip.enrolled()
    await drip.stage.play()
    assert await drip.logs(run) == [("s1", "completed"), ("s2", "skipped"), ("s3", "skipped"), ("s4", "completed")]
    rows = await drip.stage.deliveries(run)
    assert [one["life"] for one in rows] == ["sent", "skipped", "skipped", "sent"]
    assert (await drip.enrollment(run))["current_step_index"] == 4
    await drip.stage.sound()


async def test_data_are_those_of_the_day(drip: Sequences) -> None:
    await drip.publish(sms(1, 0), sms(2, 1))
    (run,) = await drip.enrolled()
    await drip.stage.play()
    await drip.contact("ann", name="Anna", company="Lee")
    await drip.days(1)
    await drip.stage.play()
    assert [one["variables"] for one in await drip.stage.deliveries(run)] == [
        '{"contact": {"name": "Ann"}}',
        '{"contact": {"name": "Anna"}}',
    ]


async def test_a_failed_step_pauses_and_resuming_sends_it_again(drip: Sequences) -> None:
    await drip.publish(sms(1, 0), sms(2, 3))
    (run,) = await drip.enrolled()
    await drip.stage.walk_on()
    await drip.stage.end(Failed("refused: no such number"))
    await drip.stage.walk_on()
    seen = await drip.enrollment(run)
    assert (seen["status"], seen["reason"]) == ("paused", "refused: no such number")
    assert await drip.logs(run) == [("s1", "failed")]
    await drip.days(2)
    assert await drip.stage.do("resume", run) == "done"
    await drip.stage.play()
    assert await drip.logs(run) == [("s1", "completed")]
    # Two days of pause.
    assert await drip.due_in_days(run) == pytest.approx(3, abs=0.01)
    await drip.stage.sound()


async def test_a_failed_step_is_passed_where_the_sequence_says_so(drip: Sequences) -> None:
    await drip.publish(sms(1, 0), sms(2, 0), on_failure="continue")
    (run,) = await drip.enrolled()
    await drip.stage.walk_on()
    await drip.stage.end(Failed("refused"))
    await drip.stage.play()
    assert await drip.logs(run) == [("s1", "failed"), ("s2", "completed")]
    assert await drip.status(run) == "completed"


async def test_a_text_that_cannot_be_rendered_pauses(drip: Sequences) -> None:
    await drip.publish(sms(1, 0), stop_if="contact.attributes.age > 3")
    (run,) = await drip.enrolled()
    await drip.stage.play()
    assert await drip.logs(run) == [("s1", "completed")]


async def test_a_condition_on_the_contact_ends_it(drip: Sequences) -> None:
    await drip.publish(sms(1, 0), sms(2, 1), stop_if='contact.attributes.plan == "pro"')
    (run,) = await drip.enrolled()
    await drip.stage.play()
    await drip.contact("ann", attributes={"plan": "pro"})
    await drip.days(1)
    await drip.stage.play()
    assert await drip.logs(run) == [("s1", "completed")]
    seen = await drip.enrollment(run)
    assert (seen["status"], seen["reason"]) == ("cancelled", "stop_if holds")
    await drip.stage.sound()


async def test_an_event_ends_it(drip: Sequences) -> None:
    await drip.publish(sms(1, 0), sms(2, 1), stop_on="bought")
    first, second = await drip.enrolled("ann", "bob")
    await drip.stage.play()
    ended = "SELECT dispatcher.contact_event($1, 'ann')"
    assert await drip.database.value(ended, "returned") == 0
    assert await drip.database.value(ended, "bought") == 1
    assert await drip.database.value(ended, "bought") == 0
    assert (await drip.status(first), await drip.status(second)) == ("cancelled", "active")
    assert await drip.stage.signal(second, "bought") == "accepted"
    assert (await drip.enrollment(second))["reason"].endswith(": event bought")
    await drip.days(1)
    assert await drip.stage.walk_on() == 0
    await drip.stage.sound()


@pytest.mark.parametrize("when", ["waiting", "queued"])
async def test_a_deleted_contact_leaves(drip: Sequences, when: str) -> None:
    await drip.publish(sms(1, 0 if when == "queued" else 1))
    (run,) = await drip.enrolled()
    await drip.stage.walk_on()
    await drip.database.fetch("DELETE FROM dispatcher.contacts")
    assert await drip.status(run) == "cancelled"
    assert await drip.logs(run) == ([("s1", "skipped")] if when == "queued" else [])
    await drip.days(2)
    assert await drip.stage.walk_on() == 0
    await drip.stage.sound()


async def test_a_contact_that_was_deleted_while_it_was_enrolled_leaves_at_its_first_step(drip: Sequences) -> None:
    await drip.publish(sms(1, 0))
    (run,) = await drip.enrolled()
    await drip.database.fetch("UPDATE dispatcher.runs SET contact_id = 0")
    await drip.stage.walk_on()
    assert (await drip.enrollment(run))["reason"] == "contact is gone"
    assert await drip.logs(run) == []
    await drip.stage.sound()
