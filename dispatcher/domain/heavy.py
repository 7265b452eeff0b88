"""What the worker process does with templates that would hold the event loop: it has all the time that they may take.

Each function here is called by name in another process, with values that can be sent there. What is parsed is kept
there from one call to the next.
"""

import time
from collections.abc import Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from dispatcher.domain.pace import HURRIED
from dispatcher.domain.plans.definition import Known, compile_definition
from dispatcher.domain.plans.plan import Plan
from dispatcher.domain.plans.run import Advance, Facts, Run
from dispatcher.domain.plans.walk import Walkable, advance
from dispatcher.domain.template import Bounds, Renderer, Sources
from dispatcher.errors import Fault, NeedsWorker, TemplateError

PLANS_KEPT_MAX = 100
# To compile a definition takes 0.8 us a byte.
DEFINITION_BYTES_MAX = 8_192
# Below this share of what the event loop gives a rendering, the next one is tried there again.
QUICK_SHARE = 0.5
QUICK_SECONDS = HURRIED.cpu_seconds * QUICK_SHARE


class Rendering(Struct, frozen=True):
    """The parts of a message, or why there are none, and what that took of a processor."""

    parts: Mapping[str, str] | None
    fault: TemplateError | None
    cpu_seconds: float


def render(bounds: Bounds, key: str, sources: Sources, variables: str) -> Rendering:
    """Render a template."""
    began, parts, fault = time.process_time(), None, None
    renderer = _renderer(bounds)
    try:
        if not renderer.has(key):
            renderer.keep(key, sources)
        parts = renderer.render(key, variables)
    except TemplateError as failed:
        fault = failed
    return Rendering(parts, fault, time.process_time() - began)


def check(bounds: Bounds, source: str) -> TemplateError | None:
    """The fault of a template, if it has one."""
    try:
        _renderer(bounds).check(source)
    except TemplateError as fault:
        return fault
    return None


def compile_definitions(hurried: bool, given: Sequence[object], size: int, known: Known) -> list[Plan | list[Fault]]:
    """The plans that definitions of so many bytes become, or everything that is wrong with each; hurried it raises
    NeedsWorker for many bytes."""
    if hurried and size > DEFINITION_BYTES_MAX:
        raise NeedsWorker
    return [compile_definition(one, known) for one in given]


class Walk(Struct, frozen=True):
    """What a walk comes to, and what that took of a processor."""

    came: Advance
    cpu_seconds: float


def walk(version_id: int, plan: Plan, run: Run, facts: Facts) -> Walk:
    """Walk a run."""
    began = time.process_time()
    walkable = _walkables.pop(version_id, None) or Walkable.of(plan)
    _walkables[version_id] = walkable
    if len(_walkables) > PLANS_KEPT_MAX:
        del _walkables[next(iter(_walkables))]
    return Walk(advance(walkable, run, facts), time.process_time() - began)


_walkables: dict[int, Walkable] = {}


@lru_cache(maxsize=1)
def _renderer(bounds: Bounds) -> Renderer:
    return Renderer.of(bounds)
