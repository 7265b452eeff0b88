"""The demonstration's run: its workflow is saved and triggered once, however often the demonstration starts."""

import asyncio
from typing import Any

import msgspec

from dispatcher.base.workspace import Workspace
from dispatcher.config.settings import Config
from dispatcher.db.database import Database
from dispatcher.features.runs import store as runs
from dispatcher.features.runs.store import Trigger
from dispatcher.features.runs.watch_command import record
from dispatcher.features.workflows import store as workflows
from dispatcher.features.workflows.store import New
from dispatcher.plans.definition.definition import Known, compile_definition, read_definition
from dispatcher.plans.plan import Plan, Send
from dispatcher.process.demo.samples import DEFINITION, INPUT, RUN, WORKFLOW

STEP_SECONDS = 0.05


def _new(config: Config) -> New:
    plan, definition = (
        compile_definition(DEFINITION, Known(config.channels, config.functions)),
        read_definition(DEFINITION),
    )
    if not isinstance(plan, Plan) or isinstance(definition, list):
        raise TypeError(f"the demonstration's own workflow has faults: {plan}")
    return New(dict(definition), plan)


def run_channels(config: Config) -> set[str]:
    """The channels that its messages take."""
    return {node.channel for node in _new(config).plan.nodes.values() if isinstance(node, Send)}


async def begin_run(database: Database, config: Config) -> dict[str, Any]:
    """Save the workflow, begin its run, and answer that in short."""
    here = Workspace()
    await workflows.put(database, here, [_new(config)], RUN, activate=True)
    data = msgspec.json.encode(INPUT).decode()
    begun = await runs.trigger(database, Trigger(workflow=WORKFLOW, input=data, key=RUN, workspace=here, by=RUN))
    return await _found(database, begun.execution_id)


async def ended_run(database: Database, run_id: int, seconds_max: float) -> dict[str, Any]:
    """The run when it has ended, or when that takes too long."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds_max
    while True:
        run = await _found(database, run_id)
        if run["finished_at"] is not None or loop.time() > deadline:
            return run
        await asyncio.sleep(STEP_SECONDS)


async def _found(database: Database, run_id: int) -> dict[str, Any]:
    run = await runs.find(database, run_id)
    if run is None:
        raise LookupError(f"run {run_id} has gone")
    facts = record(run)
    del facts["execution_id"]
    return facts
