"""Functions on templates that the worker process runs, because they would hold the event loop.

Their arguments are pickled. What is parsed is cached in that process from one call to the next.
"""

import time
from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct

from dispatcher.base.errors import TemplateError
from dispatcher.liquid.render_limits import EVENT_LOOP_LIMITS
from dispatcher.liquid.template import Bounds, Renderer, Sources

# Below this share of what the event loop gives a rendering, the next one is tried there again.
QUICK_SHARE = 0.5
QUICK_SECONDS = EVENT_LOOP_LIMITS.cpu_seconds * QUICK_SHARE


class Rendering(Struct, frozen=True):
    """The parts of a message or their fault, and the CPU time."""

    parts: Mapping[str, str] | None
    fault: TemplateError | None
    cpu_seconds: float


def render(bounds: Bounds, key: str, sources: Sources, variables: str) -> Rendering:
    """Render a template."""
    began, parts, fault = time.process_time(), None, None
    renderer = _renderer(bounds)
    try:
        if not renderer.has(key):
            renderer.cache(key, sources)
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


@lru_cache(maxsize=1)
def _renderer(bounds: Bounds) -> Renderer:
    return Renderer(bounds)
