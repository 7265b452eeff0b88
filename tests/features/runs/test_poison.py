"""Runs that harm their walker: each is found alone and fails alone, and no walker's death loses or doubles anything."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import asyncpg
import pytest
from msgspec.structs import replace

from dispatcher.base import fault_points
from dispatcher.base.fault_points import FaultPointError
from dispatcher.features.runs.walk import walking
from dispatcher.features.runs.walk.batch import CRASHES_MAX
from dispatcher.plans.plan import Call, Delay
from dispatcher.plans.walk.walk import advance
from tests.features.runs.stage import Stage
from tests.plans.walks import plan, send
from tests.support.waits import until

SHORT = plan({"mail": send(1, "{{ to }}"), "text": send(2, "{{ to }}")})
POINTS = ("walk.noted", "walk.before_commit", "walk.committed")
INNOCENT = 12


class Died(BaseException):
    """What no walker survives: nothing of it runs any more."""


def _killing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, killer: int, *, fences: bool = False
) -> Callable[[], Awaitable[int]]:
    """Let one run kill whoever walks it; answers what starts another process each time, and says how many died."""

    def deadly(walkable: Any, run: Any, facts: Any) -> Any:
        if run.id == killer:
            raise Died
        return advance(walkable, run, facts)

    monkeypatch.setattr("dispatcher.features.runs.walk.batch.advance", deadly)
    dead: list[int] = []

    async def walk_until_nothing_is_left() -> int:
        for _ in range(200):
            process = await stage.another()
            try:
                await process.walk_on()
            except Died:
                dead.append(process.scene.epoch)
                if fences:
                    await process.scene.fence()
                    await stage.poison_worker.run_once()
                continue
            await stage.poison_worker.run_once()
            if not (await process.walk()).runs:
                return len(dead)
        raise AssertionError("it goes on without an end")

    return walk_until_nothing_is_left


@pytest.mark.parametrize("leases", ["stand", "end at once"])
async def test_only_the_run_that_crashes_its_walkers_becomes_a_dead_letter(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, leases: str
) -> None:
    """Each process that dies is followed by another at once, long before anybody takes the first for dead; or later."""
    await stage.put(SHORT)
    innocent = [await stage.trigger(to="+4917012345") for _ in range(INNOCENT)]
    killer = await stage.trigger(to="+1")
    innocent += [await stage.trigger(to="+4917012345") for _ in range(INNOCENT)]
    walk = _killing(stage, monkeypatch, killer, fences=leases == "end at once")
    assert await walk() == CRASHES_MAX
    row = await stage.run(killer)
    assert (row["status"], row["dead"], row["takes"]) == ("failed", True, CRASHES_MAX)
    assert row["error"].startswith(f"poison: it was taken up {CRASHES_MAX} times")
    assert await stage.log(killer) == [("failed", None)]
    for _ in range(3):
        await stage.end()
        await walk()
    assert await stage.statuses() == {"completed": 2 * INNOCENT, "failed": 1}
    assert set((await stage.ordered()).values()) == {1}
    # Wakes of dead runs are deleted, too.
    await stage.database.fetch("INSERT INTO dispatcher.wakes VALUES ($1)", killer)
    stage.poison_worker._rounds = 0
    await stage.poison_worker.run_once()
    assert await stage.count("wakes") == 0
    await stage.sound()
    # Replayed, it has all of its lives again.
    await stage.do("replay", killer)
    assert (await stage.run(killer))["takes"] == 0


@pytest.mark.parametrize("point", POINTS)
async def test_a_bug_at_a_point_loses_nothing_and_orders_nothing_twice(stage: Stage, point: str) -> None:
    await stage.put(SHORT)
    runs = [await stage.trigger(to="+4917012345") for _ in range(4)]
    for _ in range(2):
        fault_points.arm({"FAULT": f"{point}:1:raise"})
        with pytest.raises(FaultPointError):
            await stage.walk_on()
        fault_points.arm({})
        await stage.walk_on()
        await stage.end()
    await stage.play()
    assert await stage.statuses() == {"completed": len(runs)}
    assert set((await stage.ordered()).values()) == {1}
    assert await stage.count("walks") == 0
    await stage.sound()


async def test_the_record_of_a_walk_survives_its_rollback(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    await stage.put(SHORT)
    run = await stage.trigger(to="+4917012345")
    await _killing(stage, monkeypatch, run)()
    assert (await stage.run(run))["dead"]
    # Written in the walk's own transaction, the note would have gone with it, and each walker would have died anew.


UNSTORABLE: Mapping[str, Mapping[str, Any]] = {
    "NUL": {"x": "\0"},
    "half a character": {"x": "\ud800"},
}


@pytest.mark.parametrize("what", UNSTORABLE)
async def test_a_run_with_an_unstorable_value_fails_alone(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """It comes past every check, in the answer of a function."""
    await stage.put(plan({"call": Call(step=1, function="f", action="a"), "text": send(2, "+4917012345")}))
    runs = [await stage.trigger() for _ in range(6)]
    await stage.walk_on()
    await stage.end()
    asked = walking.results

    async def spoilt(connection: Any, nodes: Any) -> Any:
        found = await asked(connection, nodes)
        for sent in found.get(runs[3], {}).get("call", ()):
            found[runs[3]]["call"] = [replace(sent, data=UNSTORABLE[what])]
        return found

    monkeypatch.setattr(walking, "results", spoilt)
    await stage.walk_on()
    row = await stage.run(runs[3])
    assert (row["status"], row["dead"]) == ("failed", True)
    assert row["error"].startswith("data: ")
    await stage.play()
    assert await stage.statuses() == {"completed": 5, "failed": 1}
    assert await stage.count("walks") == 0
    await stage.sound()


async def test_an_unreadable_run_fails_alone(stage: Stage) -> None:
    """A state that no program of this version has written."""
    await stage.put(SHORT)
    runs = [await stage.trigger(to="+4917012345") for _ in range(4)]
    await stage.database.fetch(
        """UPDATE dispatcher.runs SET state = '{"cursor": {"mail": 1}}' WHERE id = $1""", runs[1]
    )
    await stage.play()
    assert await stage.statuses() == {"completed": 3, "failed": 1}
    assert (await stage.run(runs[1]))["error"].startswith("data: ")


async def test_a_time_that_no_calendar_has_fails_alone(stage: Stage) -> None:
    await stage.put(plan({"pause": Delay(step=1, seconds=1e15)}))
    await stage.trigger()
    await stage.put(plan({"mail": send(1, "+4917012345")}))
    await stage.trigger()
    await stage.play()
    assert await stage.statuses() == {"completed": 1, "failed": 1}


# A walker that lives, and does not get through


async def test_trouble_with_postgres_counts_as_no_crash(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    await stage.put(SHORT)
    run = await stage.trigger(to="+4917012345")
    write = walking.write
    lost = [ConnectionResetError(), asyncpg.DeadlockDetectedError(""), TimeoutError()]

    async def cut_off(*given: Any) -> None:
        if lost:
            raise lost.pop()
        await write(*given)

    async def fails() -> bool:
        try:
            await stage.walk()
        except (OSError, asyncpg.DeadlockDetectedError, TimeoutError):
            return True
        return False

    monkeypatch.setattr(walking, "write", cut_off)
    # A connection that was given up holds the run until Postgres notices.
    for _ in range(3):
        await until(fails, "the run is taken, and writing it fails")
        assert ((await stage.run(run))["takes"], await stage.count("walks")) == (0, 0)
    assert await until(stage.walk_on, "the run is taken and walked") == 1


async def test_a_session_that_is_cut_off_in_the_middle_of_a_walk(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    await stage.put(SHORT)
    run = await stage.trigger(to="+4917012345")
    write = walking.write_orders
    cut: list[int] = []

    async def cut_off(connection: Any, orders: Any, now: float) -> None:
        await write(connection, orders, now)
        if not cut:
            cut.append(await connection.fetchval("SELECT pg_backend_pid()"))
            await stage.database.fetch("SELECT pg_terminate_backend($1, 5000)", cut[0])

    monkeypatch.setattr(walking, "write_orders", cut_off)
    await stage.database.persist("walk", stage.walk)
    assert len(await stage.deliveries(run)) == 1
    assert ((await stage.run(run))["takes"], await stage.count("walks")) == (0, 0)
    await stage.sound()


async def test_a_walk_record_without_an_answer_is_no_crash(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    await stage.put(SHORT)
    run = await stage.trigger(to="+4917012345")
    note = walking.record_walk

    async def unheard(*given: Any) -> list[int]:
        await note(*given)
        raise ConnectionResetError

    monkeypatch.setattr(walking, "record_walk", unheard)
    with pytest.raises(ConnectionResetError):
        await stage.walk()
    assert await stage.count("walks") == 0
    monkeypatch.setattr(walking, "record_walk", note)
    assert await stage.walk_on() == 1
    assert (await stage.run(run))["takes"] == 0


async def test_a_walker_with_a_fenced_epoch_walks_each_run_once(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stood still in a walk, past its lease: what it had locked is still its own, and nobody waits for it."""
    await stage.put(SHORT)
    runs = [await stage.trigger(to="+4917012345") for _ in range(3)]
    slow, gate, there = await stage.another(), asyncio.Event(), asyncio.Event()
    write = walking.write

    async def standing(*given: Any) -> None:
        there.set()
        await gate.wait()
        await write(*given)

    monkeypatch.setattr(walking, "write", standing)
    walking_on = asyncio.create_task(slow.walk())
    await there.wait()
    monkeypatch.setattr(walking, "write", write)
    await slow.scene.fence()
    await stage.poison_worker.run_once()
    late = await stage.trigger(to="+50")
    assert await stage.walk_on() == 1
    gate.set()
    assert (await walking_on).deliveries == len(runs)
    await stage.play()
    assert await stage.statuses() == {"completed": len(runs) + 1}
    assert set((await stage.ordered()).values()) == {1}
    assert (await stage.run(late))["status"] == "completed"
    await stage.sound()


async def test_a_crashed_run_that_is_paused_is_not_walked(stage: Stage) -> None:
    await stage.put(SHORT)
    run = await stage.trigger(to="+4917012345")
    await stage.do("pause", run)
    await stage.database.fetch(
        "INSERT INTO dispatcher.walks (epoch, run_ids) SELECT n, ARRAY[$1::bigint] FROM generate_series(1, 9) AS n", run
    )
    await stage.poison_worker.run_once()
    await stage.poison_worker.run_once()
    row = await stage.run(run)
    assert (row["status"], row["takes"], row["available_at"], row["dead"]) == ("paused", 9, None, False)
    await stage.sound()
