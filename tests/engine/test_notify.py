"""NOTIFY: sent when somebody idle has asked for it, and not otherwise."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from dispatcher.engine.rules.life import Failed, Lane
from dispatcher.engine.store import instances
from dispatcher.features.deliveries import store as deliveries
from tests.support.scene import Connection, Scene


class NotificationCounter:
    """Counts the notifications of new work, and keeps the channels that are named as urgent."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.received = 0
        self.urgent: list[str] = []

    def receive(self, *_: object) -> None:
        """Count one notification."""
        self.received += 1

    def receive_urgent(self, _connection: object, _pid: object, _name: str, channel: object) -> None:
        """Keep a channel."""
        self.urgent.append(str(channel))

    async def count(self) -> int:
        """How many came until now: an answer comes after the notifications that were sent before it."""
        await self._connection.execute("SELECT 1")
        await asyncio.sleep(0)
        return self.received


@pytest.fixture
async def notifications(url: str) -> AsyncIterator[NotificationCounter]:
    """A counter that listens."""
    connection = await asyncpg.connect(url)
    notifications = NotificationCounter(connection)
    await connection.add_listener("dispatcher_work", notifications.receive)
    await connection.add_listener("dispatcher_urgent", notifications.receive_urgent)
    yield notifications
    connection.terminate()


async def test_an_insert_notifies_idle_instances(scene: Scene, notifications: NotificationCounter) -> None:
    await scene.write(1)
    assert await notifications.count() == 1


async def test_an_insert_does_not_notify_busy_instances(scene: Scene, notifications: NotificationCounter) -> None:
    await instances.ask_to_be_woken(scene.database, scene.epoch, False)
    await scene.write(1)
    assert await notifications.count() == 0


async def test_a_transactional_delivery_names_its_channel_once(
    scene: Scene, notifications: NotificationCounter
) -> None:
    await scene.write(3, lane=Lane.TRANSACTIONAL)
    assert (await notifications.count(), notifications.urgent) == (0, ["sms"])


@pytest.mark.parametrize(("lane", "heard"), [(Lane.TRANSACTIONAL, (0, ["sms"])), (Lane.BULK, (0, []))])
async def test_a_busy_bulk_lane_silences_its_own_inserts_only(
    scene: Scene, notifications: NotificationCounter, lane: Lane, heard: tuple[int, list[str]]
) -> None:
    await instances.ask_to_be_woken(scene.database, scene.epoch, False)
    await scene.write(1, lane=lane)
    assert (await notifications.count(), notifications.urgent) == heard


async def test_busy_transactional_lanes_silence_their_own_inserts_only(
    scene: Scene, notifications: NotificationCounter
) -> None:
    await instances.ask_to_be_woken(scene.database, scene.epoch, False, urgent=True)
    await scene.write(1, lane=Lane.TRANSACTIONAL)
    assert (await notifications.count(), notifications.urgent) == (0, [])
    await scene.write(1)
    assert await notifications.count() == 1


async def test_one_idle_among_busy_ones_is_enough(scene: Scene, notifications: NotificationCounter) -> None:
    await instances.ask_to_be_woken(scene.database, scene.epoch, False)
    await Scene.open(scene.database)
    await scene.write(1)
    assert await notifications.count() == 1


async def test_a_statement_notifies_once_however_many_rows_it_writes(
    scene: Scene, notifications: NotificationCounter
) -> None:
    await scene.write(500)
    assert await notifications.count() == 1


@pytest.mark.parametrize("action", ["move", "reopen", "recover", "forget"])
async def test_whatever_becomes_ready_again_notifies(
    scene: Scene, notifications: NotificationCounter, action: str
) -> None:
    await instances.ask_to_be_woken(scene.database, scene.epoch, False)
    (waiting,) = await scene.write(1)
    (item,) = await scene.claim()
    if action == "reopen":
        await scene.flush((item, Failed("no")))
    assert await notifications.count() == 0
    match action:
        case "move":
            await scene.value("SELECT dispatcher.move_delivery($1, now(), 'me', 'now')", waiting)
        case "reopen":
            await deliveries.reopen(scene.database, waiting, "me", "again")
        case "recover":
            await scene.die()
        case _:
            await scene.value("SELECT dispatcher.forget_claim($1, $2)", scene.epoch, item.token)
    assert await notifications.count() == 1
