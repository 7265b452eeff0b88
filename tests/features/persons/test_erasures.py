"""Erasures: nothing of a person is left, their keys are still duplicates, and nothing more is sent to them."""

import json
from typing import Any

import asyncpg
import pytest

from dispatcher.base.values.addresses import Address, address
from dispatcher.db.health import checks
from dispatcher.engine.rules.life import Failed, Held, Succeeded
from dispatcher.engine.store import suppression
from dispatcher.features.deliveries import store as deliveries
from dispatcher.features.deliveries.store import New
from dispatcher.features.persons import erasure, rules
from dispatcher.features.persons.erasure import Erasure
from dispatcher.features.suppressions import store as suppressions
from dispatcher.features.suppressions.store import Entry
from tests.features.contacts.test_store import HERE, put
from tests.features.persons.test_store import ANN, write
from tests.support import flows
from tests.support.scene import Connection, Scene
from tests.support.traces import traces

PHONE = Address("phone", "+4917012345")
WHO = rules.person_of([ANN, PHONE])


async def _erase(scene: Scene, who: rules.Person = WHO) -> Erasure:
    """Ask for it, and look once."""
    number = await erasure.request(scene.database, HERE, who, "bob", "asked by letter")
    looked = await erasure.advance(scene.database, number)
    assert looked is not None
    return looked


def _new(key: str, recipient: str = "ann@example.org", text: str = "x", **fields: Any) -> New:
    """A mail to be written."""
    template = json.dumps({"text": text})
    return New(idempotency_key=key, channel="email", recipient=recipient, template=template, **fields)


async def _row(scene: Scene, delivery_id: int, columns: str) -> tuple[object, ...]:
    """Some columns of a delivery."""
    found = await scene.database.fetch(f"SELECT {columns} FROM dispatcher.deliveries WHERE id = $1", delivery_id)
    return tuple(found[0])


async def _sound(scene: Scene) -> None:
    assert [found for name in checks.invariants() if (found := await checks.check(scene.database, name))] == []


async def test_nothing_of_a_person_is_left_in_any_column(scene: Scene, connection: Connection) -> None:
    database = scene.database
    await put(database, "ann", name="Ann Lee", addresses=[{"address": "ann@example.org"}])
    (item,) = await scene.marked(1, body="Dear Ann Lee", variables='{"name": "Ann Lee"}')
    await scene.flush((item, Failed("550 no Ann Lee at +4917012345")))
    await write(database, "of ann@example.org", variables='{"name": "Ann Lee"}', scheduled_for=None)
    # To somebody else, about her.
    (told,) = await deliveries.insert(database, [_new("told", "bob@example.org", "ANN@example.org, Ann Lee")])
    await deliveries.insert(database, [_new("called", "bob@example.org", "Call Ann Lee: +49 (170) 123-45!")])
    await database.fetch("SELECT dispatcher.cancel_delivery_by_id(max(id), 'bob', 'x') FROM dispatcher.deliveries")
    await database.fetch("SELECT dispatcher.cancel_delivery_by_id($1, 'bob', 'Ann Lee')", told.id)
    await suppressions.add(database, "default", "bob", [Entry(ANN, "unsubscribe", "Ann Lee said so")])
    await connection.execute(
        """INSERT INTO dispatcher.waiting_receipts (look_at, keep_until, provider, receipt)
           VALUES (now(), now(), 'x', '{"to": "Ann@example.org"}')"""
    )
    await connection.execute(
        """INSERT INTO dispatcher.api_answers (status, tenant_id, workspace_id, key, asked, answer)
           VALUES (201, 'default', 'default', 'for ann@example.org', '', '{"to": "ann@example.org, Ann Lee"}')"""
    )
    await flows.put(connection)
    run = await flows.trigger(connection, {"mail": "ann@example.org", "name": "Ann Lee"}, "key of ann@example.org")
    await connection.execute("SELECT dispatcher.signal_run($1, 'said', '{\"by\": \"Ann Lee\"}')", run["execution_id"])
    others = await database.value("SELECT count(*) FROM dispatcher.deliveries")
    assert "contacts.name" in await traces(connection, "ann lee")
    looked = await _erase(scene)
    assert (looked.finished, looked.deliveries, looked.runs) == (True, 4, 1)
    # What workflows say by themselves is nobody's.
    left = await traces(connection, "ann@example.org", "ann lee", "+4917012345")
    assert set(left) == {"plan_versions.definition", "plan_versions.plan"}
    assert await database.value("SELECT count(*) FROM dispatcher.deliveries") == others
    (row,) = await erasure.listed(database, HERE, 2**62, 9)
    assert (row["actor"], row["reason"], row["subjects"][0]) == ("bob", "asked by letter", erasure.subject(ANN))
    assert await erasure.advance(database) is None
    await _sound(scene)


async def test_an_erased_key_is_a_duplicate_through_every_door(scene: Scene, connection: Connection) -> None:
    database = scene.database
    number = await write(database, "order of ann@example.org")
    await flows.put(connection)
    run = (await flows.trigger(connection, {"mail": "ann@example.org"}, "k"))["execution_id"]
    assert (await _erase(scene)).finished
    again = _new("order of ann@example.org")
    assert (await deliveries.insert(database, [again]))[0] == deliveries.Written(number, duplicate=True)
    assert await deliveries.find(database, "default", "default", again.idempotency_key) == number
    columns = "(idempotency_key, channel, recipient, template)"
    values = "('order of ann@example.org', 'sms', '+1', '{\"a\": \"b\"}')"
    with pytest.raises(asyncpg.UniqueViolationError):
        await connection.execute(f"INSERT INTO dispatcher.deliveries {columns} VALUES {values}")
    with pytest.raises(asyncpg.UniqueViolationError):
        await connection.execute(f"INSERT INTO dispatcher.channel_outbox {columns} VALUES {values}")
    door = "SELECT delivery_id, duplicate FROM dispatcher.enqueue_delivery('sms', '+1234567', $1, '{\"body\": \"x\"}')"
    (answer,) = await connection.fetch(door, again.idempotency_key)
    assert tuple(answer) == (number, True)
    second = await flows.trigger(connection, {}, "k")
    assert (second["execution_id"], second["duplicate"]) == (run, True)
    # Another key is another delivery.
    (other,) = await deliveries.insert(database, [_new("new")])
    assert not other.duplicate


async def test_inserts_without_erasures_run_no_trigger(scene: Scene, connection: Connection) -> None:
    state = "SELECT tgenabled::text FROM pg_trigger WHERE tgname = 'a_erased_keys_stay'"
    assert {row[0] for row in await connection.fetch(state)} == {"D"}
    await _erase(scene)
    assert {row[0] for row in await connection.fetch(state)} == {"O"}


async def test_the_opt_out_holds_by_its_hash_until_it_is_released(scene: Scene) -> None:
    database = scene.database
    await suppressions.add(database, "default", "bob", [Entry(PHONE, "unsubscribe", "x")])
    await suppressions.prefer(database, "default", [ANN], "news", False, "bob", "x")
    await _erase(scene)
    assert await suppressions.listed(database, "default", ("", "", "", ""), 9) == []
    await scene.write(1)
    mail = _new("m", "ANN@example.org", topic="news")
    await deliveries.insert(database, [mail])
    items = [*await scene.claim(), *await scene.claim(channel="email")]
    why = await suppression.reasons(database, items)
    assert sorted(why.values()) == ["unsubscribed: from everything", "unsubscribed: from news"]
    assert [one["source"] for one in await suppressions.entries(database, "default", PHONE)] == ["unsubscribe"]
    gone = await suppressions.release(database, "default", [PHONE], "bob", "asked again")
    assert [one["source"] for one in gone] == ["unsubscribe"]
    assert list((await suppression.reasons(database, items)).values()) == ["unsubscribed: from news"]
    (said,) = await suppressions.preferences(database, "default", ("", "", ""), 9, of=ANN)
    assert (said["topic"], said["subscribed"]) == ("news", False)
    await suppressions.prefer(database, "default", [ANN], "news", True, "bob", "by link")
    assert await suppression.reasons(database, items) == {}


async def test_an_erasure_skips_queued_deliveries_and_waits_for_marked_ones(scene: Scene) -> None:
    (sending,) = await scene.marked(1)
    (waiting,) = await scene.write(1)
    looked = await _erase(scene)
    assert (looked.finished, looked.waits_for) == (False, 1)
    assert await scene.lives([sending.id, waiting]) == ["sending", "skipped"]
    await scene.flush((sending, Succeeded("m-1")))
    again = await erasure.advance(scene.database, looked.id)
    assert again is not None
    assert (again.finished, again.deliveries) == (True, 1)
    assert await _row(scene, sending.id, "recipient, variables") == ("erased", "{}")
    assert (await scene.row(sending.id))["provider_message_id"].startswith("sha256:")


async def test_receipts_that_may_be_another_workspaces_go_on_waiting(scene: Scene, connection: Connection) -> None:
    await scene.write(1, workspace_id="other")
    for receipt in (
        {"recipient": "ann@example.org"},
        {"recipient": "ann@example.org", "key": ("default", "other", "k")},
        {"recipient": PHONE.text},
        {"recipient": PHONE.text, "key": ("default", "default", "k")},
    ):
        await connection.execute(
            """INSERT INTO dispatcher.waiting_receipts (look_at, keep_until, provider, receipt)
               VALUES (now(), now(), 'x', $1)""",
            json.dumps(receipt),
        )
    left = "SELECT array_agg(id ORDER BY id) FROM dispatcher.waiting_receipts"
    assert (await _erase(scene, rules.person_of([ANN]))).finished
    assert await scene.value(left) == [2, 3, 4]
    # The other one has sent something there, too, and which of the two is meant is not known yet.
    assert (await _erase(scene, rules.person_of([PHONE]))).finished
    assert await scene.value(left) == [2, 3]


async def test_held_deliveries_of_an_erased_person_fail_and_are_not_resent(scene: Scene) -> None:
    (held,) = await scene.marked(1)
    await scene.flush((held, Held("unknown: no answer")))
    await scene.database.fetch("UPDATE dispatcher.delivery_state SET settle_after = NULL WHERE id = $1", held.id)
    (queued,) = await scene.write(1)
    assert (await _erase(scene)).finished
    assert await scene.lives([held.id, queued]) == ["failed", "skipped"]
    for one in (held.id, queued):
        assert await deliveries.reopen(scene.database, one, "bob", "x") == "erased"
    assert await scene.value("SELECT count(*) FROM dispatcher.dead_letters") == 0
    again = "UPDATE dispatcher.delivery_state SET status = 'queued', finished_at = NULL WHERE id = $1"
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError):
        await scene.value(again, queued)
    await _sound(scene)


async def test_an_erasure_that_was_cut_goes_on_where_it_stopped(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasure, "PAGE", 3)
    written = await scene.write(10)
    (elsewhere,) = await scene.write(1, workspace_id="other")
    number = await erasure.request(scene.database, HERE, WHO, "bob", "x")
    looks = 0
    while looked := await erasure.advance(scene.database, number, pages=1):
        looks += 1
        if looked.finished:
            break
    assert looks > 1
    left = await scene.value("SELECT count(*) FROM dispatcher.deliveries WHERE recipient <> 'erased'")
    assert (left, await scene.life(elsewhere)) == (1, "pending")
    assert await scene.lives(written) == ["skipped"] * 10


async def test_a_person_with_a_similar_address_keeps_everything(scene: Scene, connection: Connection) -> None:
    other = await write(scene.database, "other", "an.n@example.org", variables='{"cc": "joann@example.org"}')
    await put(scene.database, "other", addresses=[{"address": "joann@example.org"}])
    assert (await _erase(scene)).deliveries == 0
    assert await _row(scene, other, "idempotency_key, recipient") == ("other", "an.n@example.org")
    kept = ["contact_addresses.address", "contact_addresses.written", "deliveries.variables"]
    assert await traces(connection, "joann@example.org") == kept


@pytest.mark.parametrize(
    ("said", "goes"),
    [
        ("ann@example.org", True),
        ("ANN@example.org, Bob", True),
        ("joann@example.org", False),
        ("jürgen@example.org", True),
        ("x <ann@bücher.example>", True),
        ("ann@bücher.example.org", False),
        ("o\\'ann@example.com", True),
        ("+49 170 123-45", True),
        ("+49 170 123-456", False),
    ],
)
async def test_kept_answers_of_a_person_go_however_the_address_is_written(
    scene: Scene, connection: Connection, said: str, goes: bool
) -> None:
    await connection.execute(
        """INSERT INTO dispatcher.api_answers (status, tenant_id, workspace_id, key, asked, answer)
           VALUES (201, 'default', 'default', 'k', '', $1)""",
        json.dumps({"to": said}, ensure_ascii=False).encode(),
    )
    known = ("ann@example.org", "jürgen@example.org", "ann@bücher.example", "o\\'ann@example.com")
    await _erase(scene, rules.person_of([PHONE, *(address("email", one) for one in known)]))
    assert (await scene.value("SELECT answer FROM dispatcher.api_answers") == b'{"erased":true}') is goes


async def test_while_a_run_is_waited_for_nothing_else_goes_out(scene: Scene, connection: Connection) -> None:
    await flows.put(connection)
    run = (await flows.trigger(connection, {"to": "nobody"}))["execution_id"]
    await connection.execute(
        """INSERT INTO dispatcher.deliveries (run_id, node, idempotency_key, channel, recipient, template)
           VALUES ($1, 'mail', 'k', 'sms', '+4917012345', '{"body": "x"}')""",
        run,
    )
    (item,) = await scene.claim()
    await scene.mark([item])
    (queued,) = await scene.write(1)
    looked = await _erase(scene)
    assert (looked.finished, looked.runs, await scene.life(queued)) == (False, 0, "skipped")
    assert await scene.value("SELECT status FROM dispatcher.runs WHERE id = $1", run) == "cancelled"
    await scene.flush((item, Succeeded("m-1")))
    again = await erasure.advance(scene.database, looked.id)
    assert again is not None
    assert (again.finished, again.runs, again.deliveries) == (True, 1, 2)
    await _sound(scene)


async def test_rows_newer_than_the_erasure_stay(scene: Scene) -> None:
    (sending,) = await scene.marked(1)
    looked = await _erase(scene)
    (fresh,) = await scene.write(1)
    await put(scene.database, "ann", addresses=[{"address": "ann@example.org"}])
    await scene.flush((sending, Succeeded("m-1")))
    again = await erasure.advance(scene.database, looked.id)
    assert again is not None
    assert again.finished
    assert (await scene.life(fresh), await _row(scene, fresh, "recipient")) == ("pending", ("+4917012345",))
    assert await scene.value("SELECT count(*) FROM dispatcher.contacts") == 1


async def test_the_successor_of_a_digest_leader_has_its_age(scene: Scene, connection: Connection) -> None:
    """Two who share a digest ask at about the same time; what comes to it afterwards is new."""
    enter = "SELECT dispatcher.enter_digest(1, 'wait', 'family', $1, 3600, 10, $2)"
    await flows.put(connection)
    for name in ("bob@example.org", "ann@example.org", "ann@example.org", "eve@example.org"):
        run = (await flows.trigger(connection, {"mail": name}))["execution_id"]
        await flows.at_node(connection, run, "wait", "digesting", until=4e9)
        await connection.execute(enter, run, json.dumps({"mail": name}))
    bob = await erasure.request(
        scene.database, HERE, rules.person_of([Address("email", "bob@example.org")]), "bob", "x"
    )
    ann = await erasure.request(scene.database, HERE, rules.person_of([ANN]), "bob", "x")
    await flows.trigger(connection, {"mail": "ann@example.org", "said": "again"})
    for number in (bob, ann):
        looked = await erasure.advance(scene.database, number)
        assert looked is not None
        assert looked.finished
    assert await traces(connection, "bob@example.org") == []
    left = "SELECT input FROM dispatcher.runs WHERE finished_at IS NULL ORDER BY id"
    mails = [json.loads(row["input"])["mail"] for row in await connection.fetch(left)]
    # Eve's own, what Ann has asked for again, and who stands in for all with what Eve has left there.
    assert mails == ["eve@example.org", "ann@example.org", "eve@example.org"]
