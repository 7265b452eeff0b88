"""The demonstration's run: its workflow is saved and triggered once, however often the demonstration starts."""

import asyncio
from typing import Any

import msgspec

from dispatcher.cli.samples import DEFINITION, INPUT, RUN, WORKFLOW
from dispatcher.config import Config
from dispatcher.domain.plans.definition import compile_definition, read_definition
from dispatcher.domain.plans.plan import Plan, Send
from dispatcher.doors.stored.workflows import known
from dispatcher.store import runs, workflows
from dispatcher.store.database import Database
from dispatcher.store.runs import Trigger
from dispatcher.store.templates import Workspace
from dispatcher.store.workflows import New

STEP_SECONDS = 0.05


def _new(config: Config) -> New:
    plan, definition = compile_definition(DEFINITION, known(config)), read_definition(DEFINITION)
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
    return run
