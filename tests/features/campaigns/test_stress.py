"""Everything at once, by many sessions: no deadlock, and the counters are the rows."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from functools import partial

import asyncpg
import pytest

from dispatcher.db.database import Database
from dispatcher.engine.rules.life import POISON_STEPS, Again, Failed, Held, Outcome, Skipped
from dispatcher.engine.store import pauses
from tests.features.campaigns.stage import ACCEPTED, CANCEL, PAUSE, RATE, REPLAY, RESUME, SETTLE_NOW, Stage
from tests.support.scene import Scene

SECONDS = 3.0
OUTCOMES: tuple[Outcome, ...] = (ACCEPTED, Failed("no"), Skipped("suppressed: bounce"), Held("?"), Again(0.0, "later"))
HELD = "SELECT id FROM dispatcher.delivery_state WHERE held ORDER BY random() LIMIT 5"
SOME = "SELECT id FROM dispatcher.delivery_state WHERE job_id IS NOT NULL ORDER BY random() LIMIT 5"
SETTLE_PAGE = (
    "SELECT count(dispatcher.settle_held(id, $2, 'ann', '')) FROM (SELECT unnest($1::bigint[]) AS id ORDER BY 1) s"
)
# An application that keeps rows of ours for a moment.
HOLD = "SELECT pg_sleep(0.02) FROM dispatcher.{table} WHERE id = $1 FOR UPDATE"


class Stress:
    """Runs, and what sessions do to them beside each other. Deadlocks are counted, whoever is told."""

    def __init__(self, database: Database, runs: list[int]) -> None:
        self.database, self.runs = database, runs
        self.deadlocks: list[str] = []
        self.ends_at = time.monotonic() + SECONDS

    async def repeat(self, seed: int, act: Callable[[random.Random], Awaitable[object]]) -> None:
        """Do something again and again."""
        dice = random.Random(seed)  # noqa: S311 - it chooses what a test does
        while time.monotonic() < self.ends_at:
            try:
                await act(dice)
            except asyncpg.DeadlockDetectedError as lock:
                self.deadlocks.append(str(lock.detail))
            await asyncio.sleep(0)

    async def expand(self, stage: Stage, _: random.Random) -> None:
        """What an expander does."""
        await stage.value("SELECT dispatcher.close_jobs(200)")
        await stage.value("SELECT dispatcher.skip_cancelled(100)")
        await stage.value("SELECT dispatcher.count_deferred(5)")
        await stage.value("SELECT dispatcher.space_campaigns()")
        await stage.take_back()
        if (job_id := await stage.lock(60)) is not None:
            await stage.expand(job_id)
        await stage.value("SELECT dispatcher.check_campaign_counters()")

    async def send(self, stage: Stage, dice: random.Random) -> None:
        """What a dispatcher does."""
        items = await stage.marked(dice.randint(1, 40))
        if dice.random() < 0.1:
            await stage.die()
        results = [(item, dice.choice(OUTCOMES)) for item in sorted(items, key=lambda item: item.id)]
        for item, outcome in await stage.scene.flush(*results):
            await stage.scene.late(item, outcome)

    async def operate(self, dice: random.Random) -> None:
        """What an operator does to a run."""
        run_id = dice.choice(self.runs)
        match dice.randrange(8):
            case 0:
                await self.database.fetch(PAUSE, run_id)
            case 1 | 2 | 3:
                await self.database.fetch(RESUME, run_id)
                await pauses.unpark(self.database, 100)
            case 4:
                await self.database.fetch(RATE, run_id, dice.choice([1000.0, 5000.0]))
            case 5 if dice.random() < 0.1:
                await self.database.fetch(CANCEL, run_id)
            case _:
                await self.database.fetch(REPLAY, run_id)

    async def change(self, dice: random.Random) -> None:
        """What is done to deliveries."""
        ids = [row["id"] for row in await self.database.fetch(SOME)]
        if dice.random() < 0.5:
            await self.database.fetch("SELECT dispatcher.bar($1, $2)", ids, ["suppressed: x"] * len(ids))
        for one in ids[:1]:
            await self.database.fetch("SELECT dispatcher.cancel_delivery_by_id($1, 'ann', '')", one)
            await self.database.fetch("SELECT dispatcher.reopen_delivery($1, 'ann', '')", one)

    async def settle(self, dice: random.Random) -> None:
        """What is done to held ones."""
        ids = [row["id"] for row in await self.database.fetch(HELD)]
        await self.database.fetch(SETTLE_PAGE, ids, dice.choice(["sent", "failed", "requeue"]))

    async def hold(self, dice: random.Random) -> None:
        """What an application may do."""
        run_id = dice.choice(self.runs)
        await self.database.fetch(HOLD.format(table="campaign_runs"), run_id)
        job_id = await self.database.value("SELECT id FROM dispatcher.job_queue WHERE run_id = $1 LIMIT 1", run_id)
        await self.database.fetch(HOLD.format(table="job_queue"), job_id)


@pytest.mark.parametrize("seed", [1])
async def test_many_sessions_at_once_neither_deadlock_nor_miscount(campaigns: Stage, seed: int) -> None:
    runs = [await campaigns.deployed(150, 10) for _ in range(3)]
    stress = Stress(campaigns.database, runs)
    stages = [campaigns, *[Stage(await Scene.open(campaigns.database)) for _ in range(3)]]

    async with asyncio.TaskGroup() as group:
        for stage in stages[:2]:
            group.create_task(stress.repeat(seed, partial(stress.expand, stage)))
        for stage in stages[2:]:
            group.create_task(stress.repeat(seed, partial(stress.send, stage)))
        for act in (stress.operate, stress.change, stress.settle, stress.hold):
            group.create_task(stress.repeat(seed, act))
    assert stress.deadlocks == []
    await _ended(campaigns, stages, runs)
    await campaigns.sound()


async def _ended(campaigns: Stage, stages: list[Stage], runs: list[int]) -> None:
    """Let all of them end."""
    for stage in stages:
        await stage.die()
    for run_id in runs:
        await campaigns.value(RESUME, run_id)
        await campaigns.value("SELECT dispatcher.set_campaign_rate($1, NULL)", run_id)
    for _ in range(30):
        await pauses.unpark(campaigns.database, 1000)
        await campaigns.take_back()
        await campaigns.expand_all()
        await campaigns.skip_cancelled()
        await campaigns.database.fetch(SETTLE_NOW)
        held = [row["id"] for row in await campaigns.database.fetch(HELD.replace("LIMIT 5", ""))]
        await campaigns.database.fetch(SETTLE_PAGE, held, "sent")
        await campaigns.send()
        for step in POISON_STEPS:
            items = await campaigns.scene.claim_recovered(step)
            await campaigns.scene.mark(items)
            await campaigns.end(items)
        await campaigns.close()
        if {(await campaigns.run(run_id))["finished_at"] is None for run_id in runs} == {False}:
            return
    raise AssertionError([await campaigns.statuses(run_id) for run_id in runs])
