"""A stage for walks: plans that are put and triggered through the door, walkers whose rounds the test calls, deliveries
that end as the test says."""

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from dispatcher.base.clock import Clock
from dispatcher.base.metrics import Metrics
from dispatcher.config.settings import Walk
from dispatcher.db.database import Database
from dispatcher.db.health import checks
from dispatcher.engine.rules.life import Failed, Held, Lane, Outcome, Succeeded
from dispatcher.features.runs.walk.batch import Walked
from dispatcher.features.runs.walk.poison_worker import PoisonWorker
from dispatcher.features.runs.walk.worker import Walker
from dispatcher.plans import plan as plans
from dispatcher.plans.plan import Plan
from tests.support.scene import Scene

PUT = "SELECT version_id FROM dispatcher.put_workflow('default', 'default', $1, $2, $2, 'ann', true)"
TRIGGER = "SELECT execution_id FROM dispatcher.trigger_workflow($1, $2)"
STEPS_MAX = 60


class Stage:
    """One database with a walker of an epoch of its own; `another` makes more of them."""

    def __init__(self, scene: Scene, batch_max: int = 50) -> None:
        self.scene = scene
        self.database: Database = scene.database
        self.metrics = Metrics()
        self.settings = Walk(batch_max=batch_max)
        self.walker = self._walker(self.database)
        self.poison_worker = PoisonWorker(self.database, self.settings, self.metrics, lambda: None)

    async def another(self, database: Database | None = None) -> "Stage":
        """Another process on the same database."""
        return Stage(await Scene.open(database or self.database), self.settings.batch_max)

    def _walker(self, database: Database) -> Walker:
        return Walker(
            database, self.settings, lambda: self.scene.epoch, Clock(), self.metrics, lambda: None, asyncio.Event()
        )

    # What applications and operators do

    async def put(self, plan: Plan) -> int:
        """Save a workflow, active; answers its version."""
        return int(await self.database.value(PUT, plan.name, plans.encode(plan).decode()))

    async def trigger(self, **given: Any) -> int:
        """A run of it."""
        return int(await self.database.value(TRIGGER, "plan", json.dumps(given)))

    async def do(self, verb: str, run: int) -> str:
        """An operator's action on a run."""
        return str(await self.database.value(f"SELECT dispatcher.{verb}_run($1)", run))

    async def signal(self, run: int, event: str, **data: Any) -> str:
        """An event for a run."""
        return str(await self.database.value("SELECT dispatcher.signal_run($1, $2, $3)", run, event, json.dumps(data)))

    # Walking

    async def walk(self) -> Walked:
        """One round."""
        return await self.walker.run_once(self.scene.epoch)

    async def walk_on(self) -> int:
        """Rounds until nothing is due; answers how many deliveries they ordered."""
        ordered = 0
        for _ in range(STEPS_MAX):
            walked = await self.walk()
            ordered += walked.deliveries
            if not walked.runs:
                return ordered
        raise AssertionError("it walks without an end")

    async def pass_time(self) -> None:
        """Let everything that waits for its time be due, as if that had passed."""
        await self.database.fetch(
            """UPDATE dispatcher.runs r
                  SET available_at = now() - interval '1 s',
                      state = jsonb_set(state, '{cursor}', coalesce((
                          SELECT jsonb_object_agg(key, CASE WHEN value ? 'until' THEN jsonb_set(value, '{until}', '1')
                                                            ELSE value END)
                            FROM jsonb_each(state -> 'cursor')), '{}'))
                WHERE available_at IS NOT NULL AND state ? 'cursor'"""
        )

    # Sending

    async def end(self, *outcomes: Outcome) -> int:
        """Send what is due, and end it so, one after the other; where none are told all go out."""
        ended = 0
        for channel in ("sms", "email", "http"):
            items = [one for lane in Lane for one in await self.scene.claim(10_000, channel, lane)]
            if items:
                await self.scene.mark(items)
                told = [
                    outcomes[place % len(outcomes)] if outcomes else Succeeded(f"m-{item.id}")
                    for place, item in enumerate(items)
                ]
                await self.scene.flush(*zip(items, told, strict=True))
                ended += len(items)
        return ended

    async def play(self, *outcomes: Outcome) -> None:
        """Walk and send until nothing moves."""
        for _ in range(STEPS_MAX):
            ordered = await self.walk_on()
            if not ordered and not await self.end(*outcomes):
                return
            await self.end(*outcomes)
        raise AssertionError("it goes on without an end")

    # Looking

    async def run(self, run: int) -> Any:
        """The row of a run."""
        return (await self.database.fetch("SELECT * FROM dispatcher.runs WHERE id = $1", run))[0]

    async def state(self, run: int) -> Mapping[str, Any]:
        """Its state."""
        found: Mapping[str, Any] = json.loads((await self.run(run))["state"])
        return found

    async def cursor(self, run: int) -> dict[str, str]:
        """Where it is, and how."""
        return {node: visit["standing"] for node, visit in (await self.state(run)).get("cursor", {}).items()}

    async def statuses(self) -> Counter[str]:
        """How many runs are what."""
        rows = await self.database.fetch("SELECT status FROM dispatcher.runs")
        return Counter(row["status"] for row in rows)

    async def log(self, run: int) -> list[tuple[str, str | None]]:
        """The log of a run."""
        asked = "SELECT event, node FROM dispatcher.run_entries WHERE run_id = $1 ORDER BY number"
        return [(row["event"], row["node"]) for row in await self.database.fetch(asked, run)]

    async def deliveries(self, run: int) -> Sequence[Any]:
        """The deliveries of a run."""
        return await self.database.fetch(
            """SELECT d.*, l.life FROM dispatcher.deliveries d JOIN dispatcher.delivery_life l USING (id)
                WHERE d.run_id = $1 ORDER BY d.id""",
            run,
        )

    async def ordered(self) -> Counter[tuple[int, str, str]]:
        """How often each node of each run has ordered a delivery for each recipient."""
        rows = await self.database.fetch("SELECT run_id, node, recipient FROM dispatcher.deliveries")
        return Counter((row["run_id"], row["node"], row["recipient"]) for row in rows)

    async def count(self, table: str) -> int:
        """Rows of a table."""
        return int(await self.database.value(f"SELECT count(*) FROM dispatcher.{table}"))

    async def sound(self) -> None:
        """No invariant is broken."""
        found = {name: one for name in checks.invariants() if (one := await checks.check(self.database, name))}
        assert found == {}


__all__ = ["Failed", "Held", "Stage", "Succeeded"]
