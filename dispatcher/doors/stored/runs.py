"""Runs of a database."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dispatcher.config import Config
from dispatcher.domain.plans.labels import label
from dispatcher.domain.plans.plan import Plan
from dispatcher.domain.plans.planned import Planned
from dispatcher.doors.nouns import Begin, Row, Step
from dispatcher.store import planning
from dispatcher.store import runs as store
from dispatcher.store.database import Database
from dispatcher.store.runs import Filter, Progress, Trigger, Triggered, Verb


class StoredRuns:
    """Calls the functions of the schema."""

    def __init__(self, database: Database, config: Callable[[], Config]) -> None:
        self._database = database
        self._config = config

    async def trigger(self, given: Begin) -> Triggered:
        """Start one."""
        return await store.trigger(self._database, _asked(given))

    async def plan(self, given: Begin, assumed: Mapping[str, Mapping[str, Any]]) -> Planned:
        """What it would do."""
        return await planning.plan(self._database, self._config(), _asked(given), assumed)

    async def listed(self, which: Filter, before: int, count: int) -> list[Row]:
        """The newest below an id."""
        return await store.listed(self._database, which, before, count)

    async def show(self, run_id: int, count: int) -> Row | None:
        """One, whole."""
        found = await store.show(self._database, run_id, count)
        return None if found is None else {**found, "steps": await self.steps(run_id)}

    async def steps(self, run_id: int) -> Sequence[Step] | None:
        """The nodes of its workflow."""
        found = await store.plan(self._database, run_id)
        return None if found is None else steps(found)

    async def progress(self, run_id: int, first: int) -> Progress | None:
        """Where one stands."""
        return await store.progress(self._database, run_id, first)

    async def act(self, verb: Verb, run_id: int, reason: str, actor: str) -> str:
        """Do it to one."""
        return await store.act(self._database, verb, run_id, reason, actor)

    async def signal(self, run_id: int, event: str, data: str, actor: str) -> str:
        """Send one an event."""
        return await store.signal(self._database, run_id, event, data, actor)


def _asked(given: Begin) -> Trigger:
    return Trigger(
        workflow=given.workflow, input=given.input, key=given.key, workspace=given.whose.workspace, by=given.by
    )


def steps(plan: Plan) -> list[Step]:
    """The nodes of a plan."""
    return [Step(node.step, name, label(node)) for name, node in plan.nodes.items()]
