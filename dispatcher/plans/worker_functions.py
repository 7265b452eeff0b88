"""Functions on plans that the worker process runs, because they would hold the event loop.

Their arguments are pickled. What is parsed is cached in that process from one call to the next.
"""

import time
from collections.abc import Sequence

from msgspec import Struct

from dispatcher.base.errors import Fault, NeedsWorker
from dispatcher.plans.definition.definition import Known, compile_definition
from dispatcher.plans.plan import Plan
from dispatcher.plans.walk.run import Advance, Facts, Run
from dispatcher.plans.walk.walk import Walkable, advance

PLANS_CACHED_MAX = 100
# To compile a definition takes 0.8 us a byte.
DEFINITION_BYTES_MAX = 8_192


def compile_definitions(
    on_event_loop: bool, given: Sequence[object], size: int, known: Known
) -> list[Plan | list[Fault]]:
    """The plans that definitions of so many bytes become, or everything that is wrong with each; hurried it raises
    NeedsWorker for many bytes."""
    if on_event_loop and size > DEFINITION_BYTES_MAX:
        raise NeedsWorker
    return [compile_definition(one, known) for one in given]


class Walk(Struct, frozen=True):
    """The result of a walk, and its processor time."""

    came: Advance
    cpu_seconds: float


def walk(version_id: int, plan: Plan, run: Run, facts: Facts) -> Walk:
    """Walk a run."""
    began = time.process_time()
    walkable = _walkables.pop(version_id, None) or Walkable(plan)
    _walkables[version_id] = walkable
    if len(_walkables) > PLANS_CACHED_MAX:
        del _walkables[next(iter(_walkables))]
    return Walk(advance(walkable, run, facts), time.process_time() - began)


_walkables: dict[int, Walkable] = {}
