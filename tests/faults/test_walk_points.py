"""The fault points of walks, met by the real program: wherever it dies, each node is ordered once and all runs end."""

import signal
from collections import Counter
from collections.abc import AsyncIterator

import psutil
import pytest

from dispatcher.base.fault_points import POINTS
from dispatcher.db.database import Database
from tests.features.runs.stage import Stage
from tests.plans.walks import plan, send
from tests.support.program import Program
from tests.support.scene import Scene
from tests.support.waits import until

QUICK = {
    "DISPATCHER_INSTANCE__HEARTBEAT_SECONDS": "0.1",
    "DISPATCHER_INSTANCE__LEASE_SECONDS": "0.6",
    "DISPATCHER_INSTANCE__LICENCE_SECONDS": "0.4",
    "DISPATCHER_WALK__POLL_SECONDS": "0.1",
    "DISPATCHER_CHANNELS__SMS__PROVIDER": "capture",
}
WALKING = tuple(point for point in POINTS if point.startswith("walk."))
RUNS = 5
SHORT = plan({"mail": send(1, "{{ to }}"), "text": send(2, "{{ to }}")})
# The first walk that takes anything up, and one that a result has woken.
PASSAGES = (1, 2)


class Case:
    """Runs that are due, and two programs, one after the other."""

    def __init__(self, database: Database, first: Program, second: Program) -> None:
        self.database, self.first, self.second = database, first, second
        first.environment = second.environment = dict(QUICK)

    async def trigger(self) -> Stage:
        """So many runs, and somebody who looks at them."""
        stage = Stage(await Scene.open(self.database))
        await stage.put(SHORT)
        for number in range(RUNS):
            await stage.trigger(to=f"+491701234{number}")
        return stage

    async def completed(self, stage: Stage) -> None:
        """Wait for the end of all runs; each has sent each of its messages once."""

        async def over() -> bool:
            return await stage.statuses() == {"completed": RUNS}

        await until(over, "all runs have completed")
        assert set((await stage.ordered()).values()) == {1}
        rows = await self.database.fetch("SELECT delivery_id FROM dispatcher.captured_messages")
        assert sorted(Counter(row["delivery_id"] for row in rows).values()) == [1] * (2 * RUNS)
        await stage.sound()


@pytest.fixture
async def case(database: Database, url: str, program: Program) -> AsyncIterator[Case]:
    """Nothing has happened yet."""
    second = Program(url)
    try:
        yield Case(database, program, second)
    finally:
        second.end()


@pytest.mark.parametrize("passage", PASSAGES)
@pytest.mark.parametrize("point", WALKING)
async def test_death_in_a_walk(case: Case, point: str, passage: int) -> None:
    stage = await case.trigger()
    await case.first.launch(FAULT=f"{point}:{passage}:kill9")
    assert await case.first.ended(20) == -signal.SIGKILL, case.first.lines()[-5:]
    await case.second.start()
    await case.completed(stage)


async def test_a_bug_in_a_walk_starts_the_walker_again(case: Case) -> None:
    stage = await case.trigger()
    await case.first.start(FAULT="walk.before_commit:1:raise")
    await case.completed(stage)
    assert len(case.first.events("walk.died")) == 0


async def test_a_drain_in_the_middle_of_a_walk_is_nobodys_death(case: Case) -> None:
    """It stands still in the walk until it was asked to go: what it has begun it ends."""
    stage = await case.trigger()
    await case.first.launch(FAULT="walk.before_commit:1:stop")
    assert case.first.process is not None
    stopped = psutil.Process(case.first.process.pid)
    await until(lambda: stopped.status() == psutil.STATUS_STOPPED, "it stands still")
    case.first.signal(signal.SIGTERM)
    case.first.signal(signal.SIGCONT)
    assert await case.first.ended(20) == 0
    assert await stage.count("walks") == 0
    assert await stage.database.value("SELECT count(*) FROM dispatcher.runs WHERE takes > 0") == 0
    assert set((await stage.ordered()).values()) == {1}
    await case.second.start()
    await case.completed(stage)


async def test_a_walker_paused_past_its_lease_blocks_no_other(case: Case) -> None:
    stage = await case.trigger()
    await case.first.launch(FAULT="walk.before_commit:1:stop")
    assert case.first.process is not None
    stopped = psutil.Process(case.first.process.pid)
    await until(lambda: stopped.status() == psutil.STATUS_STOPPED, "it stands still")
    try:
        await case.second.start()
        other = await stage.trigger(to="+5012345678")

        async def done() -> bool:
            return str((await stage.run(other))["status"]) == "completed"

        await until(done, "what it has not locked is walked")
    finally:
        case.first.signal(signal.SIGCONT)

    async def all_done() -> bool:
        return await stage.statuses() == {"completed": RUNS + 1}

    await until(all_done, "all runs have completed")
    assert set((await stage.ordered()).values()) == {1}
