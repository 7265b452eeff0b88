"""The pipeline: an epoch begins durable, crashes whole and drains without losing or repeating anything."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from dispatcher.base.clock import Clock
from dispatcher.base.errors import RestartBudgetSpent
from dispatcher.config.settings import Supervisor as Budget
from dispatcher.engine.providers.terms import Terms
from dispatcher.engine.renderer import Renderer
from dispatcher.engine.store import instances
from dispatcher.engine.supervisor import Supervisor
from tests.engine.stage import CONFIG, INSTANCE, Script, Stage, channel
from tests.engine.troubled import Troubled
from tests.support.waits import until

IMPATIENT = replace(CONFIG, instance=replace(INSTANCE, grace_seconds=0.2))


@asynccontextmanager
async def _supervised(stage: Stage, crashes_max: int = 5) -> AsyncIterator["asyncio.Task[None]"]:
    """One epoch after the other, as the process runs them; afterwards the last one is drained."""
    supervisor = Supervisor(Budget(restarts_max=crashes_max), Clock(), stage.metrics)
    ending = False

    async def epoch() -> None:
        if not ending:
            stage.woken.set()
            await stage.fresh().run()

    task = asyncio.create_task(supervisor.supervise("pipeline", epoch))
    try:
        yield task
    finally:
        ending = True
        for script in stage.scripts.values():
            script.gate.set()
        stage.pipeline.draining.set()
        await asyncio.gather(task, return_exceptions=True)


def _crash_once(real: Callable[..., Any]) -> Callable[..., Any]:
    """As it was, after one bug."""
    crashed = False

    def spoilt(*arguments: Any) -> Any:
        nonlocal crashed
        if not crashed:
            crashed = True
            raise ZeroDivisionError("a bug")
        return real(*arguments)

    return spoilt


async def _epochs(stage: Stage) -> int:
    return int(await stage.database.value("SELECT count(*) FROM dispatcher.instances"))


async def test_an_epoch_is_durable_before_its_first_claim_and_gone_after_its_drain(stage: Stage) -> None:
    ids = await stage.write(3)
    async with stage.playing():
        await stage.sent_once(ids)
        assert await _epochs(stage) == 1
    names = [name for name, _ in stage.database.asked]
    assert names.index("instances.join") < names.index("claims.claim") < names.index("marks.mark")
    assert await _epochs(stage) == 0


async def test_everything_taken_is_given_back(troubled: Troubled) -> None:
    stage = Stage(troubled, channel(marked_max=7, rate_per_second=2_000.0, rate_burst=50.0))
    async with stage.playing():
        ids = await stage.write(500)
        await stage.sent_once(ids)
        await stage.until_empty()
        assert troubled.count("claims.claim") < 500


async def test_a_renderer_that_crashes_loses_nothing_and_sends_nothing_twice(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Renderer, "run_once", _crash_once(Renderer.run_once))
    ids = await stage.write(5)
    async with _supervised(stage):
        await stage.sent_once(ids)
        await stage.until_empty()
    assert stage.database.count("instances.join") == 2


async def test_a_claimer_that_crashes_after_its_claim_loses_nothing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dispatcher.engine.claimer import Claimer  # noqa: PLC0415 - the one test that breaks it

    monkeypatch.setattr(Claimer, "_take", _crash_once(Claimer._take))
    ids = await stage.write(5)
    async with _supervised(stage):
        await stage.sent_once(ids)
    assert stage.database.count("instances.join") == 2


async def test_marked_deliveries_of_a_crashed_epoch_are_held_and_others_are_sent(
    troubled: Troubled, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(troubled, channel(marked_max=3))
    stage.sms.holds = lambda envelope: envelope.parts["body"] == "slow"
    async with _supervised(stage):
        slow = await stage.write(1, body="slow")
        await until(lambda: stage.sms.given, "it is being called")
        monkeypatch.setattr(Renderer, "run_once", _crash_once(Renderer.run_once))
        quick = await stage.write(4)
        await stage.until_all(quick, "sent")
        await stage.until_all(slow, "held")
    assert sorted(stage.sms.ids()) == [*slow, *quick]
    await stage.sound()


async def test_a_budget_that_is_spent_ends_it_with_what_crashed(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def bug(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(Renderer, "run_once", bug)
    ids = await stage.write(1)
    async with _supervised(stage, crashes_max=1) as running:
        with pytest.raises(RestartBudgetSpent, match="pipeline crashed 2 times"):
            await running
    assert await stage.lives(ids) == ["pending"]
    assert await _epochs(stage) == 0


async def test_a_fenced_epoch_ends_and_another_begins(stage: Stage) -> None:
    stage.config = replace(CONFIG, instance=replace(INSTANCE, heartbeat_seconds=0.05))
    async with _supervised(stage):
        first = await stage.write(2)
        await stage.until_all(first, "sent")
        await stage.database.fetch("DELETE FROM dispatcher.instances")
        await until(lambda: stage.database.count("instances.join") == 2, "another epoch")
        await stage.sent_once([*first, *await stage.write(2)])


async def test_an_instance_told_that_it_is_fenced_marks_nothing(stage: Stage) -> None:
    """At once, and not when the drain has begun: the next mark may be a step away."""
    assert stage.pipeline.senders["sms"]._may_mark(stage.terms["sms"])
    stage.pipeline.epoch.fenced.set()
    assert not stage.pipeline.senders["sms"]._may_mark(stage.terms["sms"])


async def test_a_fenced_epoch_marks_nothing(stage: Stage) -> None:
    """The heartbeat is a second away: the mark itself finds out."""
    stage.sms.ready.clear()
    ids = await stage.write(2)
    async with _supervised(stage):
        await until(lambda: stage.sms.preparing == 1, "it is about to be marked")
        assert await instances.fence(stage.database, stage.pipeline.epoch.number, 1_000)
        stage.sms.ready.set()
        await stage.sent_once(ids)
    assert stage.database.count("instances.join") == 2


# Drain


async def _draining(stage: Stage, running: "asyncio.Task[None]", meanwhile: Callable[[], Awaitable[object]]) -> None:
    stage.pipeline.draining.set()
    await meanwhile()
    await asyncio.wait_for(running, 15)


async def test_a_drain_finishes_what_is_marked_and_puts_back_the_rest(troubled: Troubled) -> None:
    stage = Stage(troubled, channel(marked_max=3))
    stage.sms.holds = lambda _: True
    async with stage.playing() as running:
        ids = await stage.write(10)
        await until(lambda: stage.sms.given, "some are marked")
        marked = stage.sms.ids()
        waiting = [one for one in ids if one not in marked]
        await stage.until_all(waiting, "claimed")

        async def answers() -> None:
            await stage.until_all(waiting, "pending")
            stage.sms.gate.set()

        await _draining(stage, running, answers)
        await stage.until_all(marked, "sent")
    assert stage.sms.ids() == marked
    assert [(await stage.row(one))["recoveries"] for one in ids] == [0] * 10
    await stage.sound()


async def test_after_the_grace_what_is_still_being_called_is_held(troubled: Troubled) -> None:
    stage = Stage(troubled, IMPATIENT)
    stage.sms.holds = lambda _: True
    async with stage.playing() as running:
        ids = await stage.write(2)
        await until(lambda: stage.sms.given, "they are being called")
        stage.pipeline.draining.set()
        await asyncio.wait_for(running, 15)
        assert await stage.lives(ids) == ["held", "held"]
    assert await _epochs(stage) == 0
    await stage.sound()


async def test_a_drain_marks_nothing_that_waited_for_postgres(stage: Stage) -> None:
    stage.pipeline.inbox.high_water = 2
    async with stage.playing() as running:
        flushing = stage.database.hold_answers("flushes.accepted")
        first = await stage.write(2)
        await flushing.met.wait()
        second = await stage.write(3)
        await stage.until_all(second, "claimed")
        stage.pipeline.draining.set()
        await until(stage.pipeline.senders["sms"].draining.is_set, "the drain has begun")
        flushing.gate.set()
        await asyncio.wait_for(running, 15)
        assert await stage.lives([*first, *second]) == ["sent"] * 2 + ["pending"] * 3


async def test_a_drain_during_a_claim_counts_as_no_death(stage: Stage) -> None:
    """A delivery whose owners died often is failed as poison; who was drained has not died."""
    claiming = stage.database.hold_answers("claims.claim")
    async with stage.playing() as running:
        ids = await stage.write(3)
        await claiming.met.wait()
        stage.pipeline.draining.set()
        await until(stage.pipeline.senders["sms"].draining.is_set, "the drain has begun")
        claiming.gate.set()
        await asyncio.wait_for(running, 15)
    assert await stage.lives(ids) == ["pending"] * 3
    assert [(await stage.row(one))["recoveries"] for one in ids] == [0, 0, 0]


async def test_a_connection_that_never_opens_does_not_block_a_drain(troubled: Troubled) -> None:
    stage = Stage(troubled, IMPATIENT)
    stage.sms.ready.clear()
    async with stage.playing() as running:
        ids = await stage.write(2)
        await until(lambda: stage.sms.preparing == 1, "it waits for its connection")
        stage.pipeline.draining.set()
        await asyncio.wait_for(running, 15)
        assert await stage.lives(ids) == ["pending"] * 2
    assert stage.sms.given == []


async def test_a_connection_that_never_comes_is_given_up(troubled: Troubled) -> None:
    stage = Stage(troubled, channel(call_seconds_max=0.2))
    stage.sms.ready.clear()
    async with stage.playing():
        await stage.write(2)
        await until(lambda: troubled.count("flushes.others"), "they were put back", 4.0)


async def test_deliveries_for_a_replaced_provider_are_not_marked(stage: Stage) -> None:
    """Others may claim for the new one from then on."""
    old, new = stage.sms, Script()
    old.ready.clear()
    async with stage.playing():
        ids = await stage.write(3)
        await until(lambda: old.preparing, "its connection is being made")
        terms = stage.terms["sms"]
        replaced = Terms(new, terms.settings, terms.retry, terms.rates, terms.licence_seconds, "other")
        stage.pipeline.adopt(stage.config, {"sms": replaced})
        assert stage.pipeline.epoch.blocked == {"sms"}, "at once, before anybody else can know of it"
        await until(lambda: not stage.pipeline.epoch.blocked, "nobody disagrees")
        old.ready.set()
        await stage.until_all(ids, "sent")
    assert old.given == []
    assert sorted(new.ids()) == ids
