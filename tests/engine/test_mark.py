"""The mark: who may, what it waits for, what it leaves out, and that it is durable whatever the session says."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import asyncpg
import pytest

from dispatcher.base.clock import boottime
from dispatcher.base.errors import Fenced, PausesChanged
from dispatcher.config.settings import Database as Settings
from dispatcher.db.database import Database
from dispatcher.engine.rules.life import Back, Claimed
from dispatcher.engine.store import instances, marks
from tests.support.scene import Connection, Scene
from tests.support.waits import until_blocked


@pytest.fixture
async def other(url: str) -> AsyncIterator[Connection]:
    """A second plain connection, for whoever stands in the way."""
    connection = await asyncpg.connect(url)
    yield connection
    await connection.close()


async def test_a_mark_counts_the_attempt(scene: Scene) -> None:
    await scene.write(2)
    items = await scene.claim()
    assert await scene.mark(items) == {item.id: 1 for item in items}
    assert await scene.lives([item.id for item in items]) == ["sending", "sending"]


async def test_a_fenced_instance_cannot_mark(scene: Scene) -> None:
    await scene.write(1)
    items = await scene.claim()
    assert await scene.fence()
    with pytest.raises(Fenced):
        await scene.mark(items)
    assert (await scene.row(items[0].id))["marked"] is False


async def test_a_mark_under_another_token_marks_nothing(scene: Scene) -> None:
    await scene.write(1)
    (item,) = await scene.claim()
    await scene.flush((item, Back(0.0, "changed our mind")))
    (ours,) = await scene.claim()
    assert ours.token != item.token
    assert await scene.mark([item]) == {}
    assert await scene.life(item.id) == "claimed"


async def test_nothing_is_marked_twice(scene: Scene) -> None:
    (item,) = await scene.marked()
    assert await scene.mark([item]) == {}
    assert (await scene.row(item.id))["attempt"] == 1


async def test_a_mark_leaves_out_what_was_cancelled_after_the_claim(scene: Scene) -> None:
    await scene.write(2)
    kept, cancelled = await scene.claim()
    assert await scene.value("SELECT dispatcher.cancel_delivery_by_id($1, 'me', 'no')", cancelled.id) == "cancelled"
    assert await scene.mark([kept, cancelled]) == {kept.id: 1}
    assert await scene.life(cancelled.id) == "skipped"


async def test_a_mark_leaves_out_what_was_moved_after_the_claim(scene: Scene) -> None:
    await scene.write(1)
    (item,) = await scene.claim()
    moved = "SELECT dispatcher.move_delivery($1, now() + interval '1 h', 'me', 'later')"
    assert await scene.value(moved, item.id) == "moved"
    assert await scene.mark([item]) == {}
    assert await scene.life(item.id) == "pending"


async def test_a_mark_that_waited_for_a_cancellation_sees_it(
    scene: Scene, connection: Connection, other: Connection
) -> None:
    await scene.write(1)
    (item,) = await scene.claim()
    transaction = other.transaction()
    await transaction.start()
    await other.execute("SELECT dispatcher.cancel_delivery_by_id($1, 'me', 'no')", item.id)
    marking = asyncio.create_task(scene.mark([item]))
    await until_blocked(connection)
    await transaction.commit()
    assert await marking == {}


async def test_marks_and_claims_and_heartbeats_of_one_instance_do_not_wait_for_each_other(
    scene: Scene, connection: Connection
) -> None:
    await scene.write(1)
    items = await scene.claim()
    async with connection.transaction():
        await connection.execute("SELECT FROM dispatcher.instances WHERE epoch = $1 FOR KEY SHARE", scene.epoch)
        async with asyncio.timeout(10):
            assert await instances.beat(scene.database, scene.epoch, "")
            await scene.claim()
            assert len(await scene.mark(items)) == 1


async def test_a_fence_waits_for_a_mark_under_way(scene: Scene, connection: Connection, other: Connection) -> None:
    (waiting,) = await scene.write(1)
    (item,) = await scene.claim()
    transaction = other.transaction()
    await transaction.start()
    # A mark whose commit is under way: it holds our row, and its change is not to be seen yet.
    await other.execute("SELECT FROM dispatcher.instances WHERE epoch = $1 FOR KEY SHARE", scene.epoch)
    await other.execute("UPDATE dispatcher.delivery_state SET marked = true, attempt = 1 WHERE id = $1", item.id)
    fencing = asyncio.create_task(instances.fence(scene.database, scene.epoch, 20_000))
    await until_blocked(connection)
    await transaction.commit()
    assert await fencing is True
    assert (await instances.recover(scene.database, 100)).held == 1
    assert await scene.life(waiting) == "held"


async def test_a_mark_that_waited_for_a_fence_marks_nothing(
    scene: Scene, connection: Connection, other: Connection
) -> None:
    await scene.write(1)
    items = await scene.claim()
    transaction = other.transaction()
    await transaction.start()
    await other.execute("DELETE FROM dispatcher.instances WHERE epoch = $1", scene.epoch)
    marking = asyncio.create_task(scene.mark(items))
    await until_blocked(connection)
    await transaction.commit()
    with pytest.raises(Fenced):
        await marking


async def test_a_fence_does_not_wait_for_ever(scene: Scene, other: Connection) -> None:
    async with other.transaction():
        await other.execute("SELECT FROM dispatcher.instances WHERE epoch = $1 FOR KEY SHARE", scene.epoch)
        with pytest.raises(asyncpg.LockNotAvailableError):
            await instances.fence(scene.database, scene.epoch, 50)
    assert await instances.beat(scene.database, scene.epoch, "")


async def test_a_mark_that_waited_for_a_connection_is_not_made_when_the_pauses_have_changed(
    scene: Scene, url: str
) -> None:
    await scene.write(1)
    items = await scene.claim()
    waiting, changed = asyncio.Event(), asyncio.Event()

    def clock() -> float:
        waiting.set()
        return 100.0

    saturated = Database(Settings(pool_max=4), url)
    await saturated.open()
    try:
        async with AsyncExitStack() as taken:
            for _ in range(4):
                await taken.enter_async_context(saturated.connection())
            marking = asyncio.create_task(
                marks.mark(saturated, scene.epoch, items, clock, 60.0, "capture", lambda: not changed.is_set())
            )
            await waiting.wait()
            changed.set()
        with pytest.raises(PausesChanged):
            await marking
    finally:
        await saturated.close()
    assert (await scene.row(items[0].id))["marked"] is False


async def test_a_licence_counts_from_before_the_mark(scene: Scene) -> None:
    await scene.write(1)
    items = await scene.claim()
    times = iter([100.0, 150.0, 159.9, 160.0])
    licence, _ = await marks.mark(scene.database, scene.epoch, items, lambda: next(times), 60.0, "capture")
    assert [licence.expired() for _ in range(3)] == [False, False, True]


async def test_one_mark_is_for_the_provider_of_each(scene: Scene) -> None:
    items = await _claimed(scene, 4)
    wanted = {item.id: ("one", "other")[number % 2] for number, item in enumerate(items)}
    given = scene.database, scene.epoch, items[::-1], boottime, scene.licence_seconds
    _, attempts = await marks.mark(*given, wanted)
    assert attempts == {item.id: 1 for item in items}
    assert {item.id: (await scene.row(item.id))["provider"] for item in items} == wanted


async def test_an_unknown_attempt_is_marked_for_its_own_provider_only_among_others(scene: Scene) -> None:
    items = await _claimed(scene, 3)
    ours, theirs, fresh = items
    for item, provider in ((ours, "one"), (theirs, "one")):
        await scene.database.fetch(
            "UPDATE dispatcher.delivery_state SET resend_until = 'infinity', provider = $2 WHERE id = $1",
            item.id,
            provider,
        )
    wanted = {ours.id: "one", theirs.id: "other", fresh.id: "other"}
    _, attempts = await marks.mark(scene.database, scene.epoch, items, boottime, scene.licence_seconds, wanted)
    assert attempts == {ours.id: 1, fresh.id: 1}
    assert await scene.lives([item.id for item in items]) == ["sending", "held", "sending"]
    assert "may have gone out by one" in (await scene.row(theirs.id))["error"]


async def _claimed(scene: Scene, count: int) -> list[Claimed]:
    await scene.write(count)
    return sorted(await scene.claim(), key=lambda item: item.id)
