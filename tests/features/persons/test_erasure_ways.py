"""Ways of an erasure: how it comes to what it takes away, by contacts, keys and runs, and what those are afterwards."""

import pytest

from dispatcher.base.values.addresses import Address
from dispatcher.engine.rules.life import Succeeded
from dispatcher.features.contacts import store as contacts
from dispatcher.features.persons import erasure, rules
from dispatcher.features.persons.erasure import Erasure
from dispatcher.features.suppressions import store as suppressions
from tests.features.contacts.test_store import HERE, put
from tests.features.persons.test_store import ANN
from tests.support import flows
from tests.support.scene import Connection, Scene
from tests.support.traces import traces

PHONE = Address("phone", "+4917012345")
ORDERED = """INSERT INTO dispatcher.deliveries (run_id, node, idempotency_key, channel, recipient, template)
             VALUES ($1, 'mail', 'to ' || $2::text, 'sms', $2, '{"body": "x"}')"""
ANSWER = """INSERT INTO dispatcher.api_answers (status, tenant_id, workspace_id, key, asked, answer)
            VALUES (201, 'default', 'default', 'for ann@example.org', '', '{}')"""


async def _erase(scene: Scene, pages: int | None = None) -> Erasure:
    number = await erasure.request(scene.database, HERE, rules.person_of([ANN, PHONE]), "bob", "x")
    return await _look(scene, number, pages)


async def _look(scene: Scene, number: int, pages: int | None = None) -> Erasure:
    looked = await erasure.advance(scene.database, number, pages)
    assert looked is not None
    return looked


async def test_a_contact_without_an_address_is_gone_as_soon_as_it_is_asked_for(scene: Scene) -> None:
    await put(scene.database, "ann", name="Ann Lee")
    number = await erasure.request(scene.database, HERE, rules.person_of([]), "bob", "x", "ann")
    assert await contacts.show(scene.database, HERE, "ann") is None
    assert (await _look(scene, number)).finished


async def test_a_run_that_has_told_them_is_known_by_that_until_all_that_it_sends_is_finished(
    scene: Scene, connection: Connection
) -> None:
    await flows.put(connection)
    run = (await flows.trigger(connection, {"name": "Ann Lee"}))["execution_id"]
    for recipient in (PHONE.text, "+4917099999"):
        await connection.execute(ORDERED, run, recipient)
    hers, other = sorted(await scene.claim(), key=lambda one: one.id)
    await scene.mark([hers, other])
    await scene.flush((hers, Succeeded("m-1")))
    looked = await _erase(scene)
    assert (looked.finished, looked.waits_for) == (False, 1)
    await scene.flush((other, Succeeded("m-2")))
    again = await _look(scene, looked.id)
    assert (again.finished, again.runs) == (True, 1)
    assert await traces(connection, "Ann Lee") == []


async def test_a_run_that_sends_to_them_goes_no_further_before_its_turn_comes(
    scene: Scene, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasure, "PAGE", 1)
    await flows.put(connection)
    before, hers = [(await flows.trigger(connection))["execution_id"] for _ in range(2)]
    await connection.execute(ORDERED, hers, PHONE.text)
    assert not (await _erase(scene, pages=0)).finished
    status = "SELECT status FROM dispatcher.runs WHERE id = $1"
    assert [await scene.value(status, one) for one in (before, hers)] == ["pending", "cancelled"]


async def test_an_answer_of_which_the_key_alone_speaks_of_them_is_erased(scene: Scene, connection: Connection) -> None:
    await connection.execute(ANSWER)
    assert (await _erase(scene)).finished
    assert await traces(connection, ANN.text) == []
    assert await scene.value("SELECT key FROM dispatcher.api_answers") == await scene.value(
        "SELECT dispatcher.erased('for ann@example.org')"
    )


async def test_a_replayed_run_is_not_a_dead_letter(scene: Scene, connection: Connection) -> None:
    await flows.put(connection)
    run = (await flows.trigger(connection, {"mail": ANN.text}))["execution_id"]
    await connection.execute("SELECT dispatcher.bury_run($1, 'mail', 'x')", run)
    letters = "SELECT count(*) FROM dispatcher.dead_letters"
    assert await scene.value(letters) == 1
    assert (await _erase(scene)).runs == 1
    assert await scene.value(letters) == 0


async def test_a_subscribed_address_is_not_unsubscribed_by_an_erasure(scene: Scene, connection: Connection) -> None:
    for topic, subscribed in (("news", True), ("offers", False)):
        await suppressions.prefer(scene.database, "default", [ANN], topic, subscribed, "bob", "x")
    assert (await _erase(scene)).finished
    kept = await connection.fetch("SELECT topic FROM dispatcher.erased_suppressions")
    assert [row["topic"] for row in kept] == ["offers"]
