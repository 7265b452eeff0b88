"""The mark under caps: who takes a place, who keeps it, who gives it back, and what becomes of one too many."""

from typing import Any

import pytest

from dispatcher.base.errors import Fenced
from dispatcher.base.values.addresses import Address
from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.engine.rules.life import Again, Back, Failed, Held, Lane, Resend, Succeeded
from dispatcher.features.caps import store
from dispatcher.features.caps.worker import CapReader, Sweeper
from dispatcher.features.persons import erasure
from dispatcher.features.persons.rules import person_of
from tests.features.caps.stage import HERE, Capped
from tests.support.metering import sample_value
from tests.support.scene import HOLD, RESEND

ANN, BOB = "+491701", "+491702"
MAIL: dict[str, Any] = {"channel": "email", "template": '{"subject": "x", "text": "x"}'}
DAY = 86_400.0
SENT = Succeeded("p")


@pytest.fixture
async def here(database: Database) -> Capped:
    """A replica with a cap of two a day on the channel sms."""
    one = await Capped.open(database)
    assert await one.cap() == "created"
    return one


async def test_one_too_many_is_skipped_with_its_reason(here: Capped) -> None:
    assert await here.send(ANN) == [0]
    assert await here.send(ANN) == [0]
    (third,) = await here.write(ANN)
    assert await here.mark(await here.claim()) == []
    row = await here.scene.row(third)
    assert (row["status"], row["error"], row["attempt"]) == ("skipped", "capped (2 in 1 day)", 0)
    assert sample_value(here.metrics.registry, "dispatcher_capped_total", channel="sms") == 1


async def test_people_are_counted_apart(here: Capped) -> None:
    assert await here.send(ANN, ANN, BOB, BOB) == [0, 1, 2, 3]
    assert await here.send(ANN, BOB) == []


async def test_of_one_batch_the_first_go(here: Capped) -> None:
    assert await here.send(ANN, BOB, ANN, ANN, ANN, BOB, BOB) == [0, 1, 2, 5]
    assert sorted(map(len, await here.counters())) == [2, 2]


async def test_an_address_is_one_however_it_is_written(here: Capped) -> None:
    assert await here.send("+491701", "00491701", "+49 170 1") == [0, 1]


async def test_transactional_messages_neither_count_nor_wait(here: Capped) -> None:
    assert await here.send(ANN, ANN, ANN, lane=Lane.TRANSACTIONAL) == [0, 1, 2]
    assert await here.send(ANN, ANN, ANN) == [0, 1]
    assert await here.send(ANN, lane=Lane.TRANSACTIONAL) == [0]


async def test_other_channels_topics_and_workspaces_are_not_capped(here: Capped) -> None:
    await here.cap(1, channels=["email"], topics=["news"], name="news")
    assert await here.send("a@example.org", "a@example.org", topic="news", **MAIL) == [0]
    assert await here.send("a@example.org", topic="offers", **MAIL) == [0]
    assert await here.send("a@example.org", **MAIL) == [0]
    assert await here.send(ANN, ANN, ANN, tenant_id="acme") == [0, 1, 2]
    assert await here.send(ANN, ANN, ANN, workspace_id="other") == [0, 1, 2]


async def test_the_period_slides(here: Capped) -> None:
    assert await here.send(ANN) == [0]
    await here.age(DAY * 0.6)
    assert await here.send(ANN, ANN) == [0]
    await here.age(DAY * 0.39)
    assert await here.send(ANN) == []
    await here.age(DAY * 0.02)
    # The first is over, the second is not: there is one place, not two.
    assert await here.send(ANN, ANN) == [0]


async def test_the_smallest_of_several_caps_counts(here: Capped) -> None:
    await here.cap(1, 3_600.0, name="hourly")
    await here.send(ANN)
    (second,) = await here.write(ANN)
    assert await here.mark(await here.claim()) == []
    assert (await here.scene.row(second))["error"] == "capped (1 in 1 hour)"
    await here.age(4_000.0)
    # The one that was refused by the hour took no place of the day.
    assert await here.send(ANN) == [0]
    await here.age(4_000.0)
    assert await here.send(ANN) == []


@pytest.mark.parametrize("end", [Back(0.0, "throttled", throttled=True), Back(0.0, "x"), Failed("550")], ids=repr)
async def test_a_place_comes_back_when_nothing_left(here: Capped, end: Back | Failed) -> None:
    await here.write(ANN, ANN)
    items = await here.claim()
    assert len(await here.mark(items)) == 2
    await here.scene.flush(*((item, end) for item in items))
    await here.scene.database.fetch("UPDATE dispatcher.delivery_state SET ready = false WHERE ready")
    assert await here.send(ANN, ANN, ANN) == [0, 1]


async def test_a_retry_takes_no_second_place(here: Capped) -> None:
    await here.write(ANN)
    (item,) = await here.claim()
    for _ in range(3):
        assert await here.mark([item]) == [item.id]
        await here.scene.flush((item, Again(0.0, "busy")))
        (item,) = await here.claim()
    assert await here.send(BOB) == [0]
    assert await here.mark([item]) == [item.id]
    assert await here.send(ANN, ANN) == [0]


async def test_a_retry_keeps_its_place_while_it_waits(here: Capped) -> None:
    (first,) = await here.write(ANN)
    items = await here.claim()
    assert await here.mark(items) == [first]
    await here.scene.flush((items[0], Again(3_600.0, "busy")))
    (waits,) = await here.scene.database.fetch("SELECT run_at FROM dispatcher.delivery_state WHERE id = $1", first)
    await here.write(ANN, ANN)
    fresh = sorted(await here.scene.claim(), key=lambda item: item.id)
    assert await here.mark(fresh) == [fresh[0].id], waits


async def test_a_retry_after_its_period_asks_again(here: Capped) -> None:
    (late,) = await here.write(ANN)
    items = await here.claim()
    await here.mark(items)
    await here.scene.flush((items[0], Again(0.0, "busy")))
    (again,) = await here.claim()
    await here.age(DAY * 1.1)
    assert await here.send(ANN, ANN) == [0, 1]
    assert await here.mark([again]) == []
    assert (await here.scene.row(late))["error"] == "capped (2 in 1 day)"


async def test_a_retry_counts_from_its_last_mark(here: Capped) -> None:
    await here.write(ANN)
    (item,) = await here.claim()
    await here.mark([item])
    await here.scene.flush((item, Again(0.0, "busy")))
    (item,) = await here.claim()
    await here.age(DAY * 0.9)
    assert await here.mark([item]) == [item.id]
    await here.scene.flush((item, SENT))
    await here.age(DAY * 0.9)
    assert await here.send(ANN, ANN) == [0]


async def test_what_is_held_takes_its_place(here: Capped) -> None:
    await here.write(ANN, ANN)
    items = await here.claim()
    await here.mark(items)
    await here.scene.flush(*((item, Held("unknown: no answer")) for item in items))
    assert await here.send(ANN) == []
    await here.scene.value("SELECT dispatcher.settle_held($1, 'failed', 'ann', 'no')", items[0].id)
    assert await here.send(ANN, ANN) == [0]


async def test_a_held_one_that_is_sent_again_goes_on_counting(here: Capped) -> None:
    (first,) = await here.write(ANN)
    await here.mark(await here.claim())
    assert await here.scene.fence()
    other = await Capped.open(here.scene.database)
    await other.reader.run_once()
    await other.scene.value("SELECT held FROM dispatcher.recover(10)")
    await other.scene.database.fetch("UPDATE dispatcher.delivery_state SET settle_after = now()")
    await other.scene.value("SELECT dispatcher.settle_held($1, 'requeue', 'ann', 'again')", first)
    items = await other.claim()
    assert await other.send(ANN, ANN) == [0]
    assert await other.mark(items) == [first]


@pytest.mark.parametrize("resend", [HOLD, RESEND], ids=["held", "sent again"])
async def test_the_place_of_a_dead_owner_is_not_given_away(here: Capped, resend: Resend) -> None:
    ids = await here.write(ANN, ANN)
    assert await here.mark(await here.claim(resend=resend)) == ids
    assert await here.scene.fence()
    other = await Capped.open(here.scene.database)
    await other.reader.run_once()
    await other.scene.value("SELECT held FROM dispatcher.recover(10)")
    again = await other.claim(resend=resend)
    assert await other.send(ANN, BOB) == [1]
    assert await other.mark(again) == (ids if resend is RESEND else [])


async def test_what_was_claimed_and_not_marked_has_no_place(here: Capped) -> None:
    ids = await here.write(ANN, ANN)
    items = await here.claim()
    assert await here.scene.fence()
    with pytest.raises(Fenced):
        await here.mark(items)
    assert await here.counters() == []
    other = await Capped.open(here.scene.database)
    await other.reader.run_once()
    await other.scene.value("SELECT requeued FROM dispatcher.recover(10)")
    assert await other.mark(await other.claim()) == ids


async def test_what_is_cancelled_or_moved_before_the_mark_takes_no_place(here: Capped) -> None:
    cancelled, moved, kept = await here.write(ANN, ANN, ANN)
    items = await here.claim()
    await here.scene.value("SELECT dispatcher.cancel_delivery_by_id($1, 'ann', 'no')", cancelled)
    later = "SELECT dispatcher.move_delivery($1, now() + interval '1 h', 'ann', 'later')"
    await here.scene.value(later, moved)
    assert await here.mark(items) == [kept]
    assert await here.counters() == [[kept]]


async def test_what_is_cancelled_while_it_waits_for_a_retry_gives_its_place_back(here: Capped) -> None:
    first, second = await here.write(ANN, ANN)
    items = await here.claim()
    assert await here.mark(items) == [first, second]
    await here.scene.flush(*((item, Again(3_600.0, "busy")) for item in items))
    await here.scene.value("SELECT dispatcher.cancel_delivery_by_id($1, 'ann', 'no')", first)
    await here.write(ANN, ANN)
    fresh = sorted(await here.scene.claim(), key=lambda item: item.id)
    assert await here.mark(fresh) == [fresh[0].id]


async def test_capped_ones_do_not_stop_the_rest_of_a_batch(here: Capped) -> None:
    await here.send(ANN, ANN)
    ids = [*await here.write(ANN), *await here.write(BOB), *await here.write(ANN, tenant_id="acme")]
    assert await here.mark(await here.claim()) == ids[1:]


async def test_one_of_which_an_attempt_is_unknown_is_held(here: Capped) -> None:
    (first,) = await here.write(ANN)
    (item,) = await here.claim(resend=RESEND)
    await here.mark([item])
    await here.scene.flush((item, Again(0.0, "no answer", RESEND)))
    (item,) = await here.claim(resend=RESEND)
    await here.age(2 * DAY)
    assert await here.send(ANN, ANN) == [0, 1]
    assert await here.mark([item]) == []
    row = await here.scene.row(first)
    assert row["held"]
    assert "capped (2 in 1 day)" in row["error"]


async def test_the_contact_behind_several_addresses_is_one_recipient(here: Capped) -> None:
    await here.cap(2, channels=["sms", "email"], name="all")
    await here.scene.value(
        """SELECT dispatcher.put_contact('default', 'default', 'ann', '{"addresses": [
               {"kind": "phone", "address": "+491701", "written": "+491701"},
               {"kind": "email", "address": "ann@example.org", "written": "ann@example.org"}]}', 'put', NULL, 'x')"""
    )
    assert await here.send(ANN) == [0]
    assert await here.send("Ann <ANN@example.org>", **MAIL) == [0]
    assert await here.send("ann@example.org", "bob@example.org", **MAIL) == [1]


async def test_what_was_counted_before_there_was_a_contact_goes_over_to_it(here: Capped) -> None:
    assert await here.send(ANN) == [0]
    assert await here.send(BOB) == [0]
    await here.scene.value(
        """SELECT dispatcher.put_contact('default', 'default', 'both', '{"addresses": [
               {"kind": "phone", "address": "+491701", "written": "+491701"},
               {"kind": "phone", "address": "+491702", "written": "+491702"}]}', 'put', NULL, 'x')"""
    )
    assert await here.send(ANN) == [0]
    assert await here.send(BOB, ANN) == []
    assert list(map(len, await here.counters())) == [3]


async def test_a_counter_that_was_swept_meanwhile_refuses_nobody(here: Capped) -> None:
    """Between the statement that looks and the one that takes turns, a counter goes, or its address gets a contact."""
    database = here.scene.database
    ids = await here.write(ANN, ANN, ANN)
    assert await marked_without_caps(here) == ids
    cap = await database.value("SELECT id FROM dispatcher.caps")
    asked = [cap], ["phone"], [1], [len(ids)], ids, [ANN] * len(ids)
    turns = "SELECT dispatcher.take_turns(clock_timestamp(), '{}', $1, $2, $3, $4, $5, $6)"
    assert await database.value(turns, *asked) == ids[2:]
    assert await here.counters() == [ids[:2]]


async def marked_without_caps(here: Capped) -> list[int]:
    """Claim and mark what is due, as where no cap is known."""
    here.reader = CapReader(here.scene.database, here.metrics)
    return await here.mark(await here.claim())


async def test_a_smaller_and_a_larger_cap_count_what_is_there(here: Capped) -> None:
    await here.send(ANN, ANN)
    assert await here.cap(3) == "changed"
    assert await here.send(ANN, ANN) == [0]
    assert await here.cap(1) == "changed"
    assert await here.send(ANN) == []
    await here.age(DAY * 1.1)
    assert await here.send(ANN, ANN) == [0]


async def test_a_deleted_cap_caps_nothing_even_before_that_is_known(here: Capped) -> None:
    await here.send(ANN, ANN)
    assert await store.delete(here.scene.database, HERE, "daily", "ann")
    assert await here.send(ANN, ANN) == [0, 1]


async def test_the_sweeper_keeps_what_counts(here: Capped) -> None:
    await here.cap(5, 60.0, name="other", here=Workspace("acme", "default"))
    await here.send(ANN, BOB, "+491703")
    await here.send(ANN, tenant_id="acme")
    await here.age(DAY * 0.5)
    await here.send(BOB)
    sweeper = Sweeper()
    for _ in range(4):
        await sweeper(here.scene.database, 2)
    assert sorted(map(len, await here.counters())) == [1, 1, 2]
    await here.age(DAY * 0.6)
    for _ in range(4):
        await sweeper(here.scene.database, 2)
    assert sorted(map(len, await here.counters())) == [2]
    await store.delete(here.scene.database, HERE, "daily", "ann")
    for _ in range(4):
        await sweeper(here.scene.database, 2)
    assert await here.counters() == []


async def test_an_erased_person_is_not_counted_any_more(here: Capped) -> None:
    await here.scene.value(
        """SELECT dispatcher.put_contact('default', 'default', 'bob', '{"addresses": [
               {"kind": "phone", "address": "+491702", "written": "+491702"}]}', 'put', NULL, 'x')"""
    )
    await here.send(ANN, BOB, "+491703")
    contact = await here.scene.value("SELECT id FROM dispatcher.contacts")
    await store.erase(here.scene.database, Workspace("acme", "default"), [contact], ["phone"], [ANN])
    assert len(await here.counters()) == 3
    await store.erase(here.scene.database, HERE, [contact], ["phone", "phone"], [ANN, BOB])
    assert len(await here.counters()) == 1


async def test_an_erasure_forgets_what_was_counted(here: Capped) -> None:
    await here.write(ANN, BOB)
    items = await here.claim()
    await here.mark(items)
    await here.scene.flush(*((item, SENT) for item in items))
    await erasure.request(here.scene.database, HERE, person_of([Address("phone", ANN)]), "ann", "asked")
    now = await erasure.advance(here.scene.database)
    assert now is not None
    assert now.finished
    assert await here.counters() == [[items[1].id]]


async def test_a_capped_delivery_that_is_unknown_is_not_marked_for_another_provider(here: Capped) -> None:
    """The mark under caps is another statement, with the conditions of the mark."""
    (one,) = await here.write(ANN)
    items = await here.claim(resend=RESEND)
    assert await here.mark(items) == [one]
    await here.scene.flush((items[0], Again(0.0, "unknown: no answer", RESEND)), spent=[items[0].token])
    again = await here.claim(resend=RESEND)
    assert again[0].bound_to == here.scene.provider
    assert here.reader.limited(again) is not None
    here.scene.provider = "another"
    assert await here.mark(again) == []
    assert await here.scene.life(one) == "held"
    (two,) = await here.write(BOB)
    assert await here.mark(await here.claim()) == [two]
    assert (await here.scene.row(two))["provider"] == "another"
