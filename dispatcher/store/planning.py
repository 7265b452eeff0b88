"""Planning: what a trigger would do, found out without writing anything, and beside the loop that serves others."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import msgspec

from dispatcher.config import Config
from dispatcher.domain.life import Lane
from dispatcher.domain.plans.planned import (
    Effort,
    Message,
    Planned,
    Rendering,
    Stage,
    fails_at,
    moment,
    staged,
)
from dispatcher.domain.plans.run import Order
from dispatcher.domain.plans.simulation import Step, simulate
from dispatcher.domain.plans.walkable import Watched
from dispatcher.domain.template import Renderer
from dispatcher.domain.unsubscribe import Links
from dispatcher.errors import AssumptionRefused, Fault, TriggerRefused
from dispatcher.store import barring, runs, templates, workflows
from dispatcher.store.barring import Candidate
from dispatcher.store.database import Database
from dispatcher.store.runs import Trigger
from dispatcher.store.templates import PUBLISHED, Workspace
from dispatcher.store.workflows import Found

# One at a time: several would not be quicker, and each thread takes its share of the time that the loop has.
_BESIDE = ThreadPoolExecutor(1, thread_name_prefix="planning")

Assumed = Mapping[str, Mapping[str, Any]]
T = TypeVar("T")

_object = msgspec.json.Decoder(dict[str, Any]).decode


async def plan(database: Database, config: Config, asked: Trigger, assumed: Assumed) -> Planned:
    """What a trigger would do. It only reads; raises TriggerRefused as the trigger would, and AssumptionRefused."""
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
    effort = Effort()
    steps = await _beside(lambda: _simulated(found, asked.input, now, assumed, effort))
    stages = await _stages(database, config, asked.workspace, steps, effort)
    return Planned(
        workflow=found.name,
        version=found.number,
        at=moment(now),
        fails_at=fails_at(found.plan, stages),
        steps=stages,
    )


async def _beside(work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(_BESIDE, work)


def _require_nodes(found: Found, assumed: Assumed) -> None:
    unknown = [
        Fault(f"$.assume.{node}", f"{found.name} has no node {node}")
        for node in assumed
        if node not in found.plan.nodes
    ]
    if unknown:
        raise AssumptionRefused(unknown)


def _simulated(found: Found, given: str, now: float, assumed: Assumed, effort: Effort) -> list[Step]:
    effort.begin()
    steps = simulate(Watched(found.plan, effort.look), _object(given), now, assumed)
    effort.look()
    return steps


async def _stages(
    database: Database, config: Config, workspace: Workspace, steps: Sequence[Step], effort: Effort
) -> list[Stage]:
    """The steps with their messages, and why some would not be sent."""
    orders = [step.order for step in steps if step.order is not None]
    names = sorted({order.template for order in orders if order.template is not None})
    stored = await templates.find(database, workspace, names, PUBLISHED) if names else {}
    limits = config.limits
    renderer = Renderer(
        limits.template_bytes_max, limits.variables_bytes_max, limits.rendered_bytes_max, limits.templates_cached_max
    )
    links = Links.of(config.unsubscribe.public_url, config.unsubscribe.secrets)
    rendering = Rendering(renderer, links, workspace.tenant_id, stored, effort)
    made = await _beside(lambda: _rendered(rendering, steps))
    why = await barring.reasons(database, _candidates(workspace, orders))
    found: list[Stage] = []
    number = 0
    for step, messages in zip(steps, made, strict=True):
        told = []
        for message in messages:
            told.append(msgspec.structs.replace(message, skipped=why.get(number)))
            number += 1
        found.append(staged(step, told))
    return found


def _rendered(rendering: Rendering, steps: Sequence[Step]) -> list[list[Message]]:
    rendering.begin()
    return [[] if step.order is None else rendering.messages(step.order) for step in steps]


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
