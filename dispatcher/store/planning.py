"""Planning: what a trigger would do, found out without writing anything, and beside the loop that serves others."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dispatcher.config import Config
from dispatcher.domain.life import Lane
from dispatcher.domain.plans.planned import (
    Planned,
    Stage,
    fails_at,
    messages,
    moment,
    simulated,
    staged,
)
from dispatcher.domain.plans.run import Order
from dispatcher.domain.plans.simulation import Step
from dispatcher.domain.template import Bounds
from dispatcher.domain.unsubscribe import Links
from dispatcher.errors import AssumptionRefused, Fault, TriggerRefused
from dispatcher.offload import Offload
from dispatcher.store import barring, runs, templates, workflows
from dispatcher.store.barring import Candidate
from dispatcher.store.database import Database
from dispatcher.store.runs import Trigger
from dispatcher.store.templates import PUBLISHED, Workspace
from dispatcher.store.workflows import Found

Assumed = Mapping[str, Mapping[str, Any]]


async def plan(
    database: Database, config: Config, asked: Trigger, assumed: Assumed, offload: Offload | None = None
) -> Planned:
    """What a trigger would do. It only reads; raises TriggerRefused as the trigger would, and AssumptionRefused."""
    offload = offload or Offload()
    holder = await runs.try_trigger(database, asked)
    now = await runs.now(database)
    if holder is not None:
        return Planned(
            workflow=asked.workflow, version=holder.version, duplicate_of=holder.execution_id, at=moment(now)
        )
    found = await workflows.find(database, asked.workspace, asked.workflow)
    if found is None:
        words = f"there is no workflow {asked.workflow!r}"
        raise TriggerRefused([Fault("$.workflow", words)], words, "unknown")
    _require_nodes(found, assumed)
    tenant_id = asked.workspace.tenant_id
    steps = await offload.call_if_heavy(tenant_id, simulated, found.plan, asked.input, now, assumed)
    stages = await _stages(database, config, asked.workspace, steps, offload)
    return Planned(
        workflow=found.name,
        version=found.number,
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
) -> list[Stage]:
    """The steps with their messages, and why some would not be sent."""
    orders = [step.order for step in steps if step.order is not None]
    names = sorted({order.template for order in orders if order.template is not None})
    stored = await templates.find(database, workspace, names, PUBLISHED) if names else {}
    limits = config.limits
    sizes = Bounds(
        limits.template_bytes_max, limits.variables_bytes_max, limits.rendered_bytes_max, limits.templates_cached_max
    )
    links = Links.of(config.unsubscribe.public_url, config.unsubscribe.secrets)
    tenant_id = workspace.tenant_id
    made = await offload.call_if_heavy(tenant_id, messages, sizes, links, tenant_id, stored, steps)
    why = await barring.reasons(database, _candidates(workspace, orders))
    found: list[Stage] = []
    number = 0
    for step, several in zip(steps, made, strict=True):
        told = []
        for message in several:
            told.append(msgspec.structs.replace(message, skipped=why.get(number)))
            number += 1
        found.append(staged(step, told))
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
