"""Erasures where somebody is told what happens: nothing of a person is left in what endpoints were told, or will be."""

import asyncio

import pytest

from dispatcher.base.metrics import Metrics
from dispatcher.base.values.addresses import Address
from dispatcher.config.settings import Walk
from dispatcher.engine.rules.life import Failed, Lane, Succeeded
from dispatcher.features.deliveries import store as deliveries
from dispatcher.features.deliveries.store import New
from dispatcher.features.persons import erasure, rules
from dispatcher.features.persons.erasure import Erasure
from dispatcher.features.webhooks import events
from dispatcher.features.webhooks.rules import message
from dispatcher.features.webhooks.worker import Announcer
from tests.features.contacts.test_store import HERE
from tests.features.persons.test_store import ANN
from tests.features.webhooks import hooks
from tests.support import flows
from tests.support.scene import Connection, Scene
from tests.support.traces import traces
from tests.support.waits import until_blocked

ADDRESS = ANN.text
PHONE = Address("phone", "+4917012345")


@pytest.fixture(autouse=True)
async def endpoint(scene: Scene) -> None:
    """An endpoint that gets every event."""
    await hooks.make(scene.database)


async def _erase(scene: Scene, who: Address = ANN) -> Erasure:
    """Ask for it, and look once."""
    return await _again(
        scene, await erasure.request(scene.database, HERE, rules.person_of([who]), "bob", "asked by letter")
    )


async def _again(scene: Scene, number: int) -> Erasure:
    looked = await erasure.advance(scene.database, number)
    assert looked is not None
    return looked


def _new(key: str, recipient: str = ADDRESS, channel: str = "email") -> New:
    return New(idempotency_key=key, channel=channel, recipient=recipient, template='{"body": "x", "text": "x"}')


async def _failed(scene: Scene, one: New, why: str = f"550 no {ADDRESS}") -> None:
    """A mail that its provider does not take."""
    await deliveries.insert(scene.database, [one])
    items = await scene.claim(channel="email")
    await scene.mark(items)
    await scene.flush((items[0], Failed(why)))


async def _tell(scene: Scene) -> int:
    """Let the endpoint be told all that has happened; answers how much it was."""
    await Announcer(scene.database, Walk(), Metrics()).run_once()
    items = await scene.claim(channel="webhook", lane=Lane.BULK)
    await scene.mark(items)
    await scene.flush(*((one, Succeeded("m")) for one in items))
    return len(items)


async def test_events_caused_by_an_erasure_are_erased_from_webhook_deliveries(
    scene: Scene, connection: Connection
) -> None:
    await deliveries.insert(scene.database, [_new(f"{one} of {ADDRESS}") for one in ("first", "second")])
    items = await scene.claim(channel="email")
    await scene.mark(items[:1])
    looked = await _erase(scene)
    assert (looked.finished, await _tell(scene)) == (False, 1)
    await scene.flush((items[0], Failed(f"550 no {ADDRESS}")))
    assert await _tell(scene) == 1
    assert "deliveries.variables" in await traces(connection, ADDRESS)
    assert (await _again(scene, looked.id)).finished
    assert await traces(connection, ADDRESS) == []
    (told,) = {row["variables"] for row in await scene.database.fetch("SELECT variables FROM dispatcher.deliveries")}
    assert told == "{}"


async def test_events_after_an_erasure_contain_nothing_erased(scene: Scene, connection: Connection) -> None:
    await _failed(scene, _new(f"of {ADDRESS}"))
    await flows.put(connection)
    run = await flows.trigger(connection, {"mail": ADDRESS}, f"signup of {ADDRESS}")
    assert run["execution_id"]
    assert (await _erase(scene)).finished
    assert await _tell(scene) == 2
    assert await traces(connection, ADDRESS) == []
    said = [(one["type"], one["data"]["error"]) for one in await hooks.messages(scene.database)]
    assert said == [("delivery.failed", "erased"), ("run.cancelled", None)]


async def test_an_erasure_waits_for_uncommitted_events_and_erases_them(
    scene: Scene, connection: Connection, rival: Connection
) -> None:
    await _erase(scene, PHONE)
    await _failed(scene, _new("one"))
    async with rival.transaction():
        ids, wanted = await events.take(rival, 9)
        subjects = await events.subjects(rival, wanted)
        await events.write(rival, [message(one, subjects["delivery", one.subject]) for one in wanted])
        await events.forget(rival, ids)
        erasing = asyncio.create_task(_erase(scene))
        await until_blocked(connection)
    looked = await erasing
    assert (looked.finished, looked.waits_for) == (False, 1)
    assert await _tell(scene) == 1
    assert (await _again(scene, looked.id)).finished
    assert await traces(connection, ADDRESS) == []


async def test_a_number_is_erased_from_what_was_told_however_it_was_written(
    scene: Scene, connection: Connection
) -> None:
    await deliveries.insert(scene.database, [_new("one", "+49 (170) 123-45", channel="sms")])
    (item,) = await scene.claim()
    await scene.mark([item])
    await scene.flush((item, Succeeded("m-1")))
    assert await _tell(scene) == 1
    assert (await _erase(scene, PHONE)).finished
    assert await traces(connection, "123-45") == []


async def test_events_about_other_persons_stay(scene: Scene, connection: Connection) -> None:
    await _failed(scene, _new("others", "bob@example.org"), "550 no bob")
    await scene.write(
        1, channel="webhook", variables='{"event": "{\\"type\\":\\"delivery.x\\",\\"data\\":{\\"id\\":1e9"}'
    )
    assert await _tell(scene) == 1
    assert (await _erase(scene)).deliveries == 0
    assert "deliveries.variables" in await traces(connection, "550 no bob")
