"""The services beside the pipeline: wake-up, controls, recoverer and janitor, each by one round of its own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from dispatcher.base.clock import Clock
from dispatcher.config.settings import Channel
from dispatcher.config.settings import Janitor as Housekeeping
from dispatcher.engine.janitor import AGE_SECONDS, Janitor
from dispatcher.engine.recoverer import LOOKS_A_HEARTBEAT, Recoverer
from dispatcher.engine.store import instances
from dispatcher.engine.wakeup import Wakeup
from dispatcher.workers import CHORES
from tests.engine.stage import CONFIG, Stage
from tests.engine.troubled import Troubled
from tests.support import pauses
from tests.support.metering import sample
from tests.support.scene import Connection, Scene
from tests.support.waits import until

LISTENERS = """SELECT count(*) FROM pg_stat_activity
                WHERE application_name = 'dispatcher wakeup' AND datname = current_database()"""
TERMINATE = LISTENERS.replace("count(*)", "count(pg_terminate_backend(pid))")


# Wake-up


@asynccontextmanager
async def _listening(url: str) -> AsyncIterator[Wakeup]:
    """A wake-up that listens, and has been asked to wake nobody yet."""
    wakeup = Wakeup(url, 5.0, asyncio.Event())
    task = asyncio.create_task(wakeup.run())
    await asyncio.wait_for(wakeup.listening.wait(), 10)
    wakeup.woken.others.clear()
    wakeup._controlled.clear()
    try:
        yield wakeup
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_notification_wakes(url: str, connection: Connection) -> None:
    async with _listening(url) as wakeup:
        await connection.execute("NOTIFY dispatcher_work")
        await asyncio.wait_for(wakeup.woken.others.wait(), 5)
        assert not wakeup._controlled.is_set()
        await connection.execute("NOTIFY dispatcher_control")
        await asyncio.wait_for(wakeup._controlled.wait(), 5)


async def test_a_new_listener_checks_once(url: str) -> None:
    wakeup = Wakeup(url, 5.0, asyncio.Event())
    task = asyncio.create_task(wakeup.run())
    await asyncio.wait_for(wakeup.woken.others.wait(), 10)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_a_listener_that_was_terminated_listens_again_and_looks(url: str, connection: Connection) -> None:
    async with _listening(url) as wakeup:
        await connection.fetchval(TERMINATE)
        await asyncio.wait_for(wakeup.woken.others.wait(), 10)
        await until(lambda: connection.fetchval(LISTENERS), "it listens again")
        wakeup.woken.others.clear()
        await connection.execute("NOTIFY dispatcher_work")
        await asyncio.wait_for(wakeup.woken.others.wait(), 5)


async def test_listening_says_so_only_while_it_does(url: str, connection: Connection) -> None:
    async with _listening(url) as wakeup:
        wakeup._url = "postgresql://nobody@127.0.0.1:1/nowhere"
        states: list[bool] = []
        connect = wakeup._listen

        async def watched() -> None:
            states.append(wakeup.listening.is_set())
            await connect()

        wakeup._listen = watched  # type: ignore[method-assign]  # to see what it says at the moment it begins again
        await connection.fetchval(TERMINATE)
        await until(lambda: states, "it begins again")
        assert states[0] is False


async def test_a_storm_of_wake_ups_is_one_wake(stage: Stage) -> None:
    async with stage.playing():
        await until(lambda: stage.database.count("claims.due") >= 4, "it rests")
        before = stage.database.count("claims.due")
        for _ in range(1_000):
            stage.woken.set()
        ids = await stage.write(1)
        await stage.until_all(ids, "sent")
        assert stage.database.count("claims.due") - before < 10


# Controls


async def test_parked_deliveries_are_freed_although_the_first_try_failed(stage: Stage) -> None:
    """Otherwise it would wait for the janitor's next round."""
    await pauses.pause(stage.database, "tenant", "default", "test", "test")
    await stage.controls.run_once()
    async with stage.playing():
        ids = await stage.write(2)
        await stage.until_all(ids, "parked")
        await pauses.resume(stage.database, "tenant", "default", "test")
        stage.database.lose_requests("pauses.unpark")
        await stage.database.persist("controls", stage.controls.run_once)
        assert "parked" not in await stage.lives(ids)
        stage.woken.set()
        await stage.sent_once(ids)


async def test_controls_are_read_after_a_notification(stage: Stage) -> None:
    task = asyncio.create_task(stage.controls.run())
    try:
        await pauses.pause(stage.database, "channel", "sms", "test", "test")
        stage.controls.changed.set()
        await until(lambda: stage.controls.pauses.stops("sms", ()), "it is known")
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


# Heartbeat


async def test_a_heartbeat_sees_that_the_server_was_exchanged(stage: Stage, connection: Connection) -> None:
    await stage.join()
    moved: list[bool] = []
    stage.database.failover.moved = lambda: moved.append(True)
    await stage.pipeline.heartbeat.run_once()
    await connection.execute("UPDATE dispatcher.clusters SET timeline = timeline + 1")
    assert moved == []
    await stage.pipeline.heartbeat.run_once()
    assert moved == [True]


# Recoverer


class Watcher:
    """A recoverer on a clock that the test moves."""

    def __init__(self, stage: Stage, config_hash: str = "mine") -> None:
        self.now = 0.0
        self.metrics = stage.metrics
        clock = Clock(monotonic=lambda: self.now)
        heartbeat = float(LOOKS_A_HEARTBEAT)
        self.recoverer = Recoverer(
            stage.database, heartbeat, config_hash, lambda: stage.pipeline.epoch, clock, stage.metrics
        )

    async def rounds(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += 1.0
            await self.recoverer.run_once()


async def test_an_instance_silent_for_its_lease_is_fenced_and_recovered(stage: Stage) -> None:
    scene = await Scene.open(stage.database)
    ids = await scene.write(4)
    items = await scene.claim()
    await scene.mark(items[:2])
    watcher = Watcher(stage)
    await watcher.rounds(10)
    assert set(await stage.lives(ids)) == {"claimed", "sending"}
    await watcher.rounds(1)
    assert sorted(await stage.lives(ids)) == ["held", "held", "pending", "pending"]
    assert not await instances.beats(stage.database)


async def test_a_beating_instance_is_not_fenced(stage: Stage) -> None:
    scene = await Scene.open(stage.database)
    watcher = Watcher(stage)
    for _ in range(15):
        await watcher.rounds(1)
        assert await instances.beat(stage.database, scene.epoch, "mine")
    assert await instances.beats(stage.database)


async def test_unobserved_time_does_not_count_as_silence(stage: Stage) -> None:
    await Scene.open(stage.database)
    watcher = Watcher(stage)
    await watcher.rounds(2)
    watcher.now += 3_600.0
    await watcher.rounds(1)
    assert await instances.beats(stage.database)


async def test_a_row_that_is_locked_is_fenced_in_a_later_round(
    stage: Stage, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dispatcher.engine.recoverer.FENCE_LOCK_MILLISECONDS_MAX", 50)
    await Scene.open(stage.database)
    watcher = Watcher(stage)
    async with connection.transaction():
        await connection.execute("SELECT FROM dispatcher.instances FOR KEY SHARE")
        await watcher.rounds(12)
        assert await instances.beats(stage.database)
    await watcher.rounds(1)
    assert not await instances.beats(stage.database)


async def test_replicas_with_another_configuration_are_reported(stage: Stage) -> None:
    beat = instances.Beat(7, 0, 10.0, "odd one", "other")
    await instances.join(stage.database, beat, "0")
    watcher = Watcher(stage)
    with capture_logs() as logs:
        await watcher.rounds(3)
    said = [line for line in logs if line["event"] == "config.differs"]
    assert [line["instances"] for line in said] == [["odd one"]], "said once, not in each round"
    assert sample(watcher.metrics.config_differs) == 1
    await instances.beat(stage.database, 7, "mine")
    with capture_logs() as logs:
        await watcher.rounds(3)
    assert [line["event"] for line in logs] == ["config.agrees"], "said once, and no warning"
    assert sample(watcher.metrics.config_differs) == 0


async def test_after_a_reload_no_instance_differs_from_itself(stage: Stage) -> None:
    """Its row says the old configuration until the next heartbeat."""
    await stage.join()
    with capture_logs() as logs:
        await Watcher(stage, "reloaded").rounds(1)
    assert logs == []


# Janitor


def _janitor(stage: Stage) -> Janitor:
    return Janitor(stage.database, Housekeeping(), lambda: stage.pipeline.epoch, stage.metrics, CHORES)


async def _age(stage: Stage) -> None:
    older = f"UPDATE dispatcher.claims SET claimed_at = claimed_at - interval '{AGE_SECONDS + 1} s'"
    await stage.database.fetch(older)


async def test_a_lost_claim_answer_is_forgotten_and_sent_later(stage: Stage) -> None:
    stage.database.lose_answers("claims.claim")
    ids = await stage.write(3)
    async with stage.playing():
        await stage.until_all(ids, "claimed")
        await _janitor(stage).run_once()
        assert set(await stage.lives(ids)) == {"claimed"}, "its answer may be on the way"
        await _age(stage)
        await _janitor(stage).run_once()
        stage.woken.set()
        await stage.sent_once(ids)
        await stage.until_empty()


async def test_a_claim_at_work_is_not_forgotten(stage: Stage) -> None:
    stage.sms.holds = lambda _: True
    async with stage.playing():
        ids = await stage.write(3)
        await until(lambda: stage.sms.given, "it is being called")
        await _age(stage)
        await _janitor(stage).run_once()
        assert await stage.lives(ids) == ["sending"] * 3
        assert stage.database.count("claims.forget") == 0


async def test_an_answer_that_comes_after_its_claim_was_forgotten_sends_nothing_twice(stage: Stage) -> None:
    late = stage.database.hold_answers("claims.claim")
    ids = await stage.write(3)
    async with stage.playing():
        await late.met.wait()
        await _age(stage)
        await _janitor(stage).run_once()
        late.gate.set()
        stage.woken.set()
        await stage.sent_once(ids)
        await stage.until_empty()


async def test_held_deliveries_fail_after_their_channels_timeout(stage: Stage) -> None:
    scene = await Scene.open(stage.database)
    (one,) = await scene.write(1)
    await scene.mark(await scene.claim())
    await scene.die()
    await stage.database.fetch(
        "UPDATE dispatcher.delivery_state SET held_at = held_at - interval '1 day', settle_after = held_at WHERE held"
    )
    janitor = _janitor(stage)
    await janitor.run_once()
    assert await stage.lives([one]) == ["held"]
    janitor.held_timeouts = {"sms": 3_600.0}
    await janitor.run_once()
    assert await stage.lives([one]) == ["failed"]


async def test_waiting_deliveries_that_expire_are_skipped(stage: Stage) -> None:
    ids = await stage.write(2)
    past = "UPDATE dispatcher.delivery_state SET expires_at = statement_timestamp() WHERE id = $1"
    await stage.database.fetch(past, ids[0])
    await _janitor(stage).run_once()
    assert await stage.lives(ids) == ["skipped", "pending"]


async def test_the_backlog_is_measured(troubled: Troubled) -> None:
    stage = Stage(troubled, replace(CONFIG, channels={"sms": Channel(), "email": Channel()}))
    await stage.write(4)
    await _janitor(stage).run_once()
    assert sample(stage.metrics.depth.labels("sms", "normal")) == 4
    assert sample(stage.metrics.depth.labels("email", "normal")) == 0
