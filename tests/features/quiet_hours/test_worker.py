"""Quiet hours on a database: what they move, whose zone counts, and what is due again when they change."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import asyncpg
import pytest

from dispatcher.base.workspace import Workspace
from dispatcher.db.health import checks
from dispatcher.engine.rules.life import Back, Claimed, Lane, Lost, Outcome, Resend, Skipped
from dispatcher.features.quiet_hours import store
from dispatcher.features.quiet_hours.models import NewQuietHours, Period
from dispatcher.features.quiet_hours.worker import QuietHoursReader
from tests.support.scene import HOLD, Connection, Scene
from tests.support.waits import until_blocked

HERE = Workspace()
KEYED = Resend("key", 86_400.0)


def _hour(moment: datetime) -> str:
    return f"{moment:%H:%M}"


def quiet(hours: float, after: float = 2.0) -> NewQuietHours:
    """Quiet hours that began so long ago in UTC, and last for some more."""
    now = datetime.now(UTC)
    return NewQuietHours(quiet=[Period(_hour(now - timedelta(hours=hours)), _hour(now + timedelta(hours=after)))])


@pytest.fixture
async def reader(scene: Scene) -> QuietHoursReader:
    """A reader that has seen nothing yet."""
    return QuietHoursReader(scene.database, asyncio.Event())


@pytest.fixture
async def other(url: str) -> AsyncIterator[Connection]:
    """A second plain connection."""
    connection = await asyncpg.connect(url)
    yield connection
    await connection.close()


async def _put(scene: Scene, reader: QuietHoursReader, given: NewQuietHours, channel: str = "all") -> None:
    await store.put(scene.database, HERE, channel, given, "ann")
    await reader.run_once()


async def _zone(scene: Scene, zone: str) -> None:
    """The workspace's zone; the numbers of the tests have several, so that none of theirs counts."""
    await scene.value("SELECT dispatcher.put_workspace_settings('default', 'default', NULL, $1, NULL, 'ann')", zone)


async def _claimed(scene: Scene, number: int = 1, resend: Resend = HOLD, **fields: Any) -> list[Claimed]:
    ids = await scene.write(number, **fields)
    for one in ids:
        await scene.value("UPDATE dispatcher.deliveries SET recipient = '+61412345678' WHERE id = $1", one)
    return await scene.claim(lane=Lane(fields.get("lane", Lane.NORMAL)), resend=resend)


@pytest.fixture(autouse=True)
async def _mutable(scene: Scene) -> None:
    """Recipients can be rewritten."""
    await scene.value("ALTER TABLE dispatcher.deliveries DISABLE TRIGGER deliveries_never_change")


async def _put_off(reader: QuietHoursReader, items: list[Claimed]) -> list[Outcome | None]:
    if not reader.concerns(items):
        return [None] * len(items)
    outcomes = await reader.put_off(items)
    return [outcomes.get(item.id) for item in items]


async def _moved(scene: Scene, item: Claimed) -> Any:
    return await scene.database.fetch("SELECT * FROM dispatcher.moved_deliveries WHERE delivery_id = $1", item.id)


async def _sound(scene: Scene) -> None:
    assert [found for name in checks.invariants() if (found := await checks.check(scene.database, name))] == []


async def test_what_may_not_go_now_is_due_when_it_may(scene: Scene, reader: QuietHoursReader) -> None:
    given = quiet(1)
    await _put(scene, reader, given)
    (item,) = await _claimed(scene)
    assert await _put_off(reader, [item]) == [Lost()]
    row = await scene.row(item.id)
    assert (await scene.life(item.id), row["token"], row["attempt"], row["throttled_since"]) == (
        "pending",
        None,
        0,
        None,
    )
    assert _hour(row["run_at"]) == given.quiet[0].closes
    (moved,) = await _moved(scene, item)
    assert moved["run_at"] == row["run_at"] > moved["due_at"]
    assert moved["reason"] == f"quiet hours until {row['run_at']:%Y-%m-%d %H:%M} UTC"
    # It is not found again before.
    assert await scene.claim() == []
    assert await scene.mark([item]) == {}
    await _sound(scene)


async def test_without_quiet_hours_nothing_is_looked_up(scene: Scene, reader: QuietHoursReader) -> None:
    await reader.run_once()
    (item,) = await _claimed(scene)
    assert not reader.concerns([item])
    await store.put(scene.database, Workspace("acme", "default"), "all", quiet(1), "ann")
    await store.put(scene.database, HERE, "email", quiet(1), "ann")
    await reader.run_once()
    assert not reader.concerns([item])


async def test_a_transactional_delivery_goes_at_any_time(scene: Scene, reader: QuietHoursReader) -> None:
    await _put(scene, reader, quiet(1))
    (item,) = await _claimed(scene, lane=0)
    assert not reader.concerns([item])
    (bulk,) = await _claimed(scene, lane=2)
    assert reader.concerns([bulk])


async def test_a_channels_own_quiet_hours_take_the_place_of_those_of_all(
    scene: Scene, reader: QuietHoursReader
) -> None:
    await _put(scene, reader, quiet(1))
    await _put(scene, reader, quiet(-3, 4), "sms")
    items = await _claimed(scene)
    assert await _put_off(reader, items) == [None]


async def test_what_has_expired_is_not_moved(scene: Scene, reader: QuietHoursReader) -> None:
    """Throttled for a day: its end is not put off."""
    await _put(scene, reader, quiet(1))
    await scene.write(1)
    await scene.value("UPDATE dispatcher.delivery_state SET throttled_since = now() - interval '25 hours'")
    (item,) = await scene.claim()
    assert item.expired
    assert not reader.concerns([item])


async def test_programs_have_no_quiet_hours(scene: Scene, reader: QuietHoursReader) -> None:
    await _put(scene, reader, quiet(1))
    for channel in ("http", "webhook"):
        await scene.write(1, channel)
        assert not reader.concerns(await scene.claim(channel=channel))


async def test_what_expires_before_is_skipped_with_its_reason(scene: Scene, reader: QuietHoursReader) -> None:
    await _put(scene, reader, quiet(1))
    soon, late = (datetime.now(UTC) + timedelta(hours=hours) for hours in (1, 5))
    (dies,) = await _claimed(scene, expires_at=soon)
    (lives,) = await _claimed(scene, expires_at=late)
    (outcome,) = await _put_off(reader, [dies])
    assert isinstance(outcome, Skipped)
    assert outcome.reason.startswith("expired: its quiet hours last until ")
    assert await _put_off(reader, [lives]) == [Lost()]


async def test_the_zone_is_the_contacts_then_the_numbers_then_the_workspaces(
    scene: Scene, reader: QuietHoursReader
) -> None:
    """It is quiet in the workspace's zone, in Tokyo's at another time, and in Berlin's at a third."""
    await _zone(scene, "Asia/Tokyo")
    now = datetime.now(UTC)

    async def put_off(recipient: str) -> bool:
        (number,) = await scene.write(1)
        await scene.value("UPDATE dispatcher.deliveries SET recipient = $2 WHERE id = $1", number, recipient)
        (item,) = (one for one in await scene.claim() if one.id == number)
        return (await _put_off(reader, [item]))[0] is not None

    for zone, contact, others in (("Asia/Tokyo", False, True), ("America/Sao_Paulo", True, False)):
        local = now.astimezone(ZoneInfo(zone))
        hours = Period(_hour(local - timedelta(minutes=30)), _hour(local + timedelta(minutes=30)))
        await _put(scene, reader, NewQuietHours(quiet=[hours]))
        await scene.value(
            """SELECT dispatcher.put_contact('default', 'default', 'ann', '{"time_zone": "America/Sao_Paulo",
               "addresses": [{"kind": "phone", "address": "+61412345678", "written": "x"}]}', 'put', NULL, 'ann')"""
        )
        assert await put_off("0061 412 345 678") is contact
        assert await put_off("+61412345679") is others
        # A German number's own.
        assert await put_off("+4917012345") is False


async def test_each_of_a_batch_goes_by_a_zone_of_its_own(scene: Scene, reader: QuietHoursReader) -> None:
    """It is quiet in Tokyo. All of a batch are asked about together, and for some the country of the number says it."""
    local = datetime.now(UTC).astimezone(ZoneInfo("Asia/Tokyo"))
    hours = Period(_hour(local - timedelta(minutes=30)), _hour(local + timedelta(minutes=30)))
    await _put(scene, reader, NewQuietHours(quiet=[hours]))

    async def put_off(*recipients: str) -> list[bool]:
        ids = await scene.write(len(recipients))
        for number, recipient in zip(ids, recipients, strict=True):
            await scene.value("UPDATE dispatcher.deliveries SET recipient = $2 WHERE id = $1", number, recipient)
        items = sorted((one for one in await scene.claim() if one.id in ids), key=lambda one: one.id)
        return [outcome is not None for outcome in await _put_off(reader, items)]

    assert await put_off("+4917012345", "+4917012346") == [False, False]
    assert await put_off("+4917012345", "+81312345678", "+4917012346") == [False, True, False]
    assert await put_off("+81312345678", "+4917012345") == [True, False]
    await scene.value(
        """SELECT dispatcher.put_contact('default', 'default', 'ann', '{"time_zone": "Asia/Tokyo",
           "addresses": [{"kind": "phone", "address": "+4917012346", "written": "x"}]}', 'put', NULL, 'ann')"""
    )
    assert await put_off("+4917012345", "+4917012346") == [False, True]


async def test_a_key_is_not_outlived(scene: Scene, reader: QuietHoursReader) -> None:
    """It may have gone out, and its provider knows the key for an hour yet: it is not moved by two."""
    await _put(scene, reader, quiet(1))
    forgotten, known = await _claimed(scene, 2, KEYED)
    for item, hours in ((forgotten, 1), (known, 5)):
        await scene.value(
            """UPDATE dispatcher.delivery_state SET attempt = 1, key_used_at = now(), provider = 'capture',
                      resend_until = now() + make_interval(hours => $2) WHERE id = $1""",
            item.id,
            hours,
        )
    assert await _put_off(reader, [forgotten, known]) == [None, Lost()]
    assert await scene.mark([forgotten]) == {forgotten.id: 2}


async def test_the_day_after_which_a_throttled_one_is_given_up_begins_anew(
    scene: Scene, reader: QuietHoursReader
) -> None:
    await _put(scene, reader, quiet(1))
    (item,) = await _claimed(scene)
    await scene.value(
        "UPDATE dispatcher.delivery_state SET throttled_since = now() - interval '23 hours' WHERE id = $1", item.id
    )
    await _put_off(reader, [item])
    assert (await scene.row(item.id))["throttled_since"] is None


async def test_a_deleted_rule_frees_what_it_has_moved(scene: Scene, reader: QuietHoursReader) -> None:
    await _put(scene, reader, quiet(1))
    items = await _claimed(scene, 3)
    due = {item.id: (await scene.row(item.id))["run_at"] for item in items}
    await _put_off(reader, items)
    first, second, third = items
    await scene.value("SELECT dispatcher.move_delivery($1, now() + interval '9 h', 'ann', 'x')", second.id)
    await scene.value("SELECT dispatcher.cancel_delivery_by_id($1, 'ann', 'x')", third.id)
    assert await store.delete(scene.database, HERE, "all", "ann")
    await reader.run_once()
    assert [item.id for item in await scene.claim()] == [first.id]
    assert (await scene.row(first.id))["run_at"] == due[first.id]
    # An operator's own time stays.
    assert (await scene.row(second.id))["run_at"] > datetime.now(UTC) + timedelta(hours=8)
    assert await scene.life(third.id) == "skipped"
    assert await scene.value("SELECT count(*) FROM dispatcher.moved_deliveries") == 0
    assert await scene.value("SELECT count(*) FROM dispatcher.quiet_hours_ended") == 0
    assert not await store.delete(scene.database, HERE, "all", "ann")


async def test_pages_of_several_ended_rules_are_freed(
    scene: Scene, reader: QuietHoursReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dispatcher.features.quiet_hours.worker.FREED_PAGE", 2)
    await _put(scene, reader, quiet(1))
    before = await _claimed(scene, 5)
    await _put_off(reader, before)
    # Nobody has looked meanwhile.
    await store.put(scene.database, HERE, "all", quiet(1, 3), "bob")
    await store.put(scene.database, HERE, "all", quiet(1, 4), "bob")
    await reader.run_once()
    assert await scene.value("SELECT count(*) FROM dispatcher.quiet_hours_ended") == 0
    again = await scene.claim()
    assert len(again) == len(before)
    await _put_off(reader, again)
    assert await scene.claim() == []


async def test_a_move_on_keeps_the_first_time_and_a_move_by_hand_begins_another(
    scene: Scene, reader: QuietHoursReader
) -> None:
    await _put(scene, reader, quiet(1))
    (item,) = await _claimed(scene)
    due = (await scene.row(item.id))["run_at"]
    await _put_off(reader, [item])
    # Time goes on: what was moved is due, and may not go again.
    await scene.value(
        """WITH gone AS (UPDATE dispatcher.delivery_state SET run_at = now() - interval '1 s' WHERE id = $1)
           UPDATE dispatcher.moved_deliveries SET run_at = now() - interval '1 s' WHERE delivery_id = $1""",
        item.id,
    )
    await _put_off(reader, await scene.claim())
    assert (await _moved(scene, item))[0]["due_at"] == due
    await scene.value("SELECT dispatcher.move_delivery($1, now() - interval '1 min', 'ann', 'x')", item.id)
    by_hand = (await scene.row(item.id))["run_at"]
    await _put_off(reader, await scene.claim())
    assert (await _moved(scene, item))[0]["due_at"] == by_hand


async def test_nothing_is_moved_under_a_rule_that_has_ended(scene: Scene, reader: QuietHoursReader) -> None:
    """A process that has not heard of it yet: the delivery goes back, and is decided anew."""
    await _put(scene, reader, quiet(1))
    (item,) = await _claimed(scene)
    await store.delete(scene.database, HERE, "all", "ann")
    (outcome,) = await _put_off(reader, [item])
    assert isinstance(outcome, Back)
    assert await _moved(scene, item) == []
    await scene.flush((item, outcome))
    await reader.run_once()
    assert await _put_off(reader, [item]) == [None]


async def test_whoever_ends_a_rule_waits_for_moves_under_way(
    scene: Scene, reader: QuietHoursReader, connection: Connection, other: Connection
) -> None:
    await _put(scene, reader, quiet(1))
    (item,) = await _claimed(scene)
    transaction = other.transaction()
    await transaction.start()
    version = await other.fetchval("SELECT version FROM dispatcher.quiet_hours")
    await other.execute(
        "SELECT dispatcher.move_for_quiet_hours($1, $2, $3, ARRAY[now() + interval '1 h'], '{x}')",
        *([one] for one in (item.id, item.token, version)),
    )
    ending = asyncio.create_task(store.delete(scene.database, HERE, "all", "ann"))
    await until_blocked(connection)
    await transaction.commit()
    assert await ending
    await reader.run_once()
    assert [one.id for one in await scene.claim()] == [item.id]


async def test_what_was_taken_from_us_is_left_alone(scene: Scene, reader: QuietHoursReader) -> None:
    """Cancelled, or recovered and claimed by another: a late move changes neither."""
    await _put(scene, reader, quiet(1))
    cancelled, taken = await _claimed(scene, 2)
    await scene.value("SELECT dispatcher.cancel_delivery_by_id($1, 'ann', 'x')", cancelled.id)
    await scene.value("UPDATE dispatcher.delivery_state SET token = token + 1 WHERE id = $1", taken.id)
    assert await _put_off(reader, [cancelled, taken]) == [Lost(), Lost()]
    assert await scene.life(cancelled.id) == "skipped"
    assert (await scene.row(taken.id))["token"] == taken.token + 1
    assert await scene.value("SELECT count(*) FROM dispatcher.moved_deliveries") == 0


async def test_a_move_may_be_run_again(scene: Scene, reader: QuietHoursReader) -> None:
    """The answer to its COMMIT was lost."""
    await _put(scene, reader, quiet(1))
    items = await _claimed(scene)
    assert await _put_off(reader, items) == await _put_off(reader, items) == [Lost()]
    await _sound(scene)


async def test_a_marked_delivery_is_not_moved(scene: Scene, reader: QuietHoursReader) -> None:
    await _put(scene, reader, quiet(1))
    (item,) = await _claimed(scene)
    await scene.mark([item])
    (outcome,) = await _put_off(reader, [item])
    assert isinstance(outcome, Back)
    assert await scene.life(item.id) == "sending"
    assert await _moved(scene, item) == []


async def test_what_is_deleted_takes_its_move_along(scene: Scene, reader: QuietHoursReader) -> None:
    await _put(scene, reader, quiet(1))
    (item,) = await _claimed(scene)
    await _put_off(reader, [item])
    await scene.value("SELECT dispatcher.cancel_delivery_by_id($1, 'ann', 'x')", item.id)
    await scene.value("DELETE FROM dispatcher.deliveries WHERE id = $1", item.id)
    assert await _moved(scene, item) == []
