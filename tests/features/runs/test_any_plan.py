"""Any plan on real Postgres, whatever happens to its runs and their walkers, and whenever: each run ends, nothing is
done twice, and what is written agrees with itself."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from unittest import mock

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from dispatcher.base import fault_points
from dispatcher.base.fault_points import FaultPointError
from dispatcher.config.settings import Database as Settings
from dispatcher.db.database import Database
from dispatcher.engine.rules.life import Failed, Held, Outcome, Succeeded
from dispatcher.plans.plan import Digest, Edge, Plan
from dispatcher.plans.walk.walk import advance
from tests.features.runs.stage import Stage
from tests.plans.test_walk_any import INPUT, plans
from tests.plans.walks import send
from tests.support.examples import examples, new_seed
from tests.support.scene import Scene

EXAMPLES = examples(12, 60)
RUNS = 3
STEPS = 15
END_MAX = 40
POINTS = ("walk.noted", "walk.before_commit", "walk.committed")
OVER = "('completed', 'failed', 'cancelled')"
OUTCOMES: Sequence[Outcome] = (Succeeded("m"), Succeeded("m"), Failed("no such number"), Held("unknown: no answer"))


class Died(BaseException):
    """The death of every walker."""


class Chaos:
    """Two walkers, and everything that can happen to them and to the runs that they walk."""

    def __init__(self, dice: random.Random, walkers: list[Stage]) -> None:
        self.dice = dice
        self.walkers = walkers
        self.runs: list[int] = []
        self.deadly: set[int] = set()

    @property
    def stage(self) -> Stage:
        """A walker that does not die."""
        return self.walkers[0]

    def advance(self, walkable: Any, run: Any, facts: Any) -> Any:
        """A walk, which can be its walker's last."""
        if run.id in self.deadly:
            self.deadly.clear()
            raise Died
        return advance(walkable, run, facts)

    async def step(self) -> None:
        """Something happens."""
        happens: Mapping[Callable[[], Awaitable[object]], int] = {
            self.walk: 8,
            self.end: 8,
            self.signal: 3,
            self.stage.pass_time: 3,
            self.operate: 5,
            self.settle: 2,
            self.stage.poison_worker.run_once: 1,
            self.die: 1,
        }
        (one,) = self.dice.choices(list(happens), list(happens.values()))
        await one()

    async def walk(self) -> None:
        """One of them walks or both do, and one may die, or meet a bug."""
        if self.dice.random() < 0.2:
            self.deadly = {self.dice.choice(self.runs)}
        if self.dice.random() < 0.5:
            fault_points.arm({"FAULT": f"{self.dice.choice(POINTS)}:{self.dice.randint(1, 2)}:raise"})
        asked = self.walkers if self.dice.random() < 0.5 else [self.dice.choice(self.walkers)]
        came = await asyncio.gather(*(one.walk() for one in asked), return_exceptions=True)
        fault_points.arm({})
        self.deadly.clear()
        for one, fault in zip(asked, came, strict=True):
            if isinstance(fault, Died):
                await self._replace(one)
            elif isinstance(fault, BaseException) and not isinstance(fault, FaultPointError):
                raise fault

    async def _replace(self, dead: Stage) -> None:
        fresh = await dead.another()
        self.walkers[self.walkers.index(dead)] = fresh

    async def die(self) -> None:
        """One is taken for dead; it goes on for a while all the same."""
        one = self.walkers[1]
        await one.scene.fence()
        await one.walk()
        await self._replace(one)

    async def end(self) -> None:
        """Deliveries end, each as it likes."""
        await self.stage.end(*self.dice.choices(OUTCOMES, k=7))

    async def signal(self) -> None:
        """An event for one of them."""
        await self.stage.signal(self.dice.choice(self.runs), self.dice.choice(["paid", "left"]))

    async def operate(self) -> None:
        """An operator does something to one of them, or to none."""
        verb = self.dice.choice(["pause", "resume", "resume", "replay", "cancel"])
        await self.stage.do(verb, self.dice.choice(self.runs))

    async def settle(self) -> None:
        """An operator knows what became of those that are held."""
        await self.stage.database.fetch("UPDATE dispatcher.delivery_state SET settle_after = NULL WHERE held")
        await self.stage.database.fetch(
            """SELECT dispatcher.settle_held(id, 'sent', 'ann', 'saw it', 'm')
                 FROM dispatcher.delivery_state WHERE held"""
        )

    async def to_the_end(self) -> None:
        """From now on all goes well."""
        for _ in range(END_MAX):
            open_ones = await self.stage.database.fetch(
                f"SELECT id, status FROM dispatcher.runs WHERE status NOT IN {OVER}"
            )
            if not open_ones:
                return
            for row in open_ones:
                await self.stage.do("resume", row["id"])
                for event in ("paid", "left"):
                    await self.stage.signal(row["id"], event)
            await self.settle()
            await self.stage.play()
            await self.stage.poison_worker.run_once()
            await self.stage.pass_time()
        raise AssertionError("some runs do not end")


def _with_a_send_and_a_digest(plan: Plan) -> Plan:
    """Whatever else it does, it sends something, and meets the other runs."""
    first, pool = send(90, "ann"), Digest(step=91, key="{{ yes }}", window_seconds=60.0)
    edges = {**plan.edges, "first": (Edge("pool"), Edge(plan.entry))}
    return replace(plan, entry="first", nodes={**plan.nodes, "first": first, "pool": pool}, edges=edges)


async def _play(database: Database, plan: Plan, seed: int) -> None:
    walkers = [Stage(await Scene.open(database), batch_max=2) for _ in range(2)]
    chaos = Chaos(random.Random(seed), walkers)  # noqa: S311 - it hides nothing
    await chaos.stage.put(_with_a_send_and_a_digest(plan))
    chaos.runs = [await chaos.stage.trigger(**INPUT) for _ in range(RUNS)]
    with mock.patch("dispatcher.features.runs.walk.batch.advance", chaos.advance):
        for _ in range(STEPS):
            await chaos.step()
        await chaos.to_the_end()
    stage = chaos.stage
    assert set((await stage.ordered()).values()) <= {1}
    lost = """SELECT g.id FROM dispatcher.digests g JOIN dispatcher.runs r ON r.id = g.run_id
               WHERE r.status IN ('failed', 'cancelled') AND r.state -> 'cursor' ? g.node
                 AND EXISTS (SELECT FROM dispatcher.digest_items i WHERE i.digest_id = g.id AND i.run_id <> r.id)"""
    assert await database.fetch(lost) == []
    await stage.walk_on()
    await stage.poison_worker.run_once()
    left = (
        "SELECT count(*) FROM dispatcher.walks WHERE epoch IN (SELECT epoch FROM dispatcher.instances) AND epoch = $1"
    )
    assert await database.value(left, stage.scene.epoch) == 0
    started = """SELECT 1 FROM dispatcher.run_entries e JOIN dispatcher.runs r ON r.id = e.run_id
                  WHERE e.event = 'started' GROUP BY e.run_id, e.node HAVING count(*) > 1 + max(r.retries) LIMIT 1"""
    assert await database.value(started) is None
    await stage.sound()


def _explore(url: str) -> None:
    """Examples on one database, one after the other; in a thread, since they have a loop of their own."""
    with asyncio.Runner() as runner:
        database = Database(Settings(), url)
        runner.run(database.open())

        @seed(new_seed())
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(plans(), st.integers(0, 1 << 30))
        def explored(plan: Plan, seed: int) -> None:
            runner.run(_play(database, plan, seed))

        try:
            explored()
        finally:
            runner.run(database.close())


async def test_any_run_of_any_plan_ends_and_nothing_is_done_twice(url: str) -> None:
    await asyncio.to_thread(_explore, url)
