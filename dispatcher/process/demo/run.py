"""The demonstration's run: its workflow is saved and triggered once, however often the demonstration starts."""

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


def _new(config: Config) -> New:
    plan = compile_definition(DEFINITION, Known(config.channels, config.functions))
    definition = read_definition(DEFINITION)
    if not isinstance(plan, Plan) or isinstance(definition, list):
        raise TypeError(f"the demonstration's own workflow has faults: {plan}")
    return New(dict(definition), plan)


def run_channels(config: Config) -> set[str]:
    """Return the channels of its messages."""
    return {node.channel for node in _new(config).plan.nodes.values() if isinstance(node, Send)}


async def start_run(database: Database, config: Config) -> dict[str, Any]:
    """Save the workflow, start its run, and return the run in short."""
    here = Workspace()
    await workflows.put(database, here, [_new(config)], RUN, activate=True)
    data = msgspec.json.encode(INPUT).decode()
    begun = await runs.trigger(database, Trigger(workflow=WORKFLOW, input=data, key=RUN, workspace=here, by=RUN))
    return await found_run(database, begun.execution_id)


async def found_run(database: Database, run_id: int) -> dict[str, Any]:
    """Return the run in short."""
    run = await runs.find(database, run_id)
    if run is None:
        raise LookupError(f"run {run_id} has gone")
    facts = record(run)
    del facts["execution_id"]
    return facts
