"""The planner: finds out what a trigger would do without writing anything, beside the loop that serves others."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dispatcher.base.errors import AssumptionRefused, Fault, TriggerRefused
from dispatcher.base.worker_process import Offload
from dispatcher.base.workspace import Workspace
from dispatcher.config.settings import Config
from dispatcher.db.database import Database
from dispatcher.engine.rules.life import Lane
from dispatcher.engine.rules.suppression import Candidate
from dispatcher.engine.rules.unsubscribe_links import Links
from dispatcher.engine.store import suppression
from dispatcher.features.runs import store
from dispatcher.features.runs.store import Trigger
from dispatcher.features.templates import store as templates
from dispatcher.features.templates.store import PUBLISHED
from dispatcher.features.workflows import store as workflows
from dispatcher.features.workflows.store import Found
from dispatcher.liquid.template import Bounds
from dispatcher.plans.simulation.planned import (
    PlannedRun,
    PlannedStep,
    fails_at,
    messages,
    moment,
    planned_step,
    simulated_steps,
)
from dispatcher.plans.simulation.simulation import Step
from dispatcher.plans.walk.run import Order

Assumed = Mapping[str, Mapping[str, Any]]


async def plan(
    database: Database, config: Config, asked: Trigger, assumed: Assumed, offload: Offload | None = None
) -> PlannedRun:
    """What a trigger would do. It only reads; raises TriggerRefused as the trigger would, and AssumptionRefused."""
    offload = offload or Offload()
    holder = await store.try_trigger(database, asked)
    now = await store.now(database)
    if holder is not None:
        return PlannedRun(
            workflow=asked.workflow,
            version=holder.version,
            duplicate_of=holder.execution_id,
            at=moment(now),
            fails_at=None,
            steps=(),
        )
    found = await workflows.find(database, asked.workspace, asked.workflow)
    if found is None:
        words = f"there is no workflow {asked.workflow!r}"
        raise TriggerRefused([Fault("$.workflow", words)], words, "unknown")
    _require_nodes(found, assumed)
    tenant_id = asked.workspace.tenant_id
    steps = await offload.call_if_heavy(tenant_id, simulated_steps, found.plan, asked.input, now, assumed)
    stages = await _stages(database, config, asked.workspace, steps, offload)
    return PlannedRun(
        workflow=found.name,
        version=found.number,
        duplicate_of=None,
        at=moment(now),
        fails_at=fails_at(found.plan, stages),
        steps=stages,
    )


def _require_nodes(found: Found, assumed: Assumed) -> None:
    unknown = [
        Fault(f"$.assume.{node}", f"{found.name} has no node {node}")
        for node in assumed
        if node not in found.plan.nodes
    ]
    if unknown:
        raise AssumptionRefused(unknown)


async def _stages(
    database: Database, config: Config, workspace: Workspace, steps: Sequence[Step], offload: Offload
) -> list[PlannedStep]:
    """The steps with their messages, and why some would not be sent."""
    orders = [step.order for step in steps if step.order is not None]
    names = sorted({order.template for order in orders if order.template is not None})
    stored = await templates.find(database, workspace, names, PUBLISHED) if names else {}
    sizes = Bounds.of(config.limits)
    links = Links.of(config.unsubscribe.public_url, config.unsubscribe.secrets)
    tenant_id = workspace.tenant_id
    made = await offload.call_if_heavy(tenant_id, messages, sizes, links, tenant_id, stored, steps)
    why = await suppression.reasons(database, _candidates(workspace, orders))
    found: list[PlannedStep] = []
    number = 0
    for step, several in zip(steps, made, strict=True):
        told = []
        for message in several:
            told.append(msgspec.structs.replace(message, skipped=why.get(number)))
            number += 1
        found.append(planned_step(step, told))
    return found


def _candidates(workspace: Workspace, orders: Sequence[Order]) -> list[Candidate]:
    """All messages as deliveries, numbered in their order."""
    every = [(order, recipient) for order in orders for recipient in order.recipients]
    return [
        Candidate(
            number,
            workspace.tenant_id,
            order.channel,
            Lane.NORMAL if order.lane is None else Lane(order.lane),
            recipient,
            order.topic,
        )
        for number, (order, recipient) in enumerate(every)
    ]
