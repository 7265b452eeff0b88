"""RenderLimits: how much one rendering may do, where there is time for it and on the event loop."""

from msgspec import Struct

# Iterations of all loops of one rendering together, and less of them the more stands in the template: about so many
# nodes are rendered at the most.
LOOP_ITERATIONS_MAX = 20_000
NODES_RENDERED_MAX = 200_000
# What a filter may be given or make, beside texts, which may be as long as the output.
ITEMS_MAX = 100_000
# `uniq` compares each with each.
ITEMS_COMPARED_MAX = 2_000
# The net under all bounds: so much of a processor's time. What is rendered in earnest takes a thousandth.
CPU_SECONDS_MAX = 0.04


class RenderLimits(Struct, frozen=True):
    """The limits of one rendering. What exceeds `nodes_max` is not begun."""

    cpu_seconds: float
    # What one filter call may be given: characters of a text, items of a list, items that are compared with each other.
    characters_max: int
    items_max: int
    compared_max: int
    # Parsing takes 8 us a node, looking for faults 15, compiling 50; rendering one 0.1 to 1.
    nodes_max: int
    nodes_rendered_max: int
    # On the event loop, what exceeds a limit raises NeedsWorker.
    on_event_loop: bool = False


WORKER_LIMITS = RenderLimits(
    CPU_SECONDS_MAX,
    characters_max=2**62,
    items_max=ITEMS_MAX,
    compared_max=ITEMS_COMPARED_MAX,
    nodes_max=2**62,
    nodes_rendered_max=NODES_RENDERED_MAX,
)
# A step of the program may hold the event loop for 20 ms. A message has three parts; a template is compiled once.
EVENT_LOOP_LIMITS = RenderLimits(
    0.003,
    characters_max=32_768,
    items_max=1_000,
    compared_max=100,
    nodes_max=150,
    nodes_rendered_max=10_000,
    on_event_loop=True,
)


def render_limits(*, on_event_loop: bool) -> RenderLimits:
    """The limits of the event loop, or those of the worker process."""
    return EVENT_LOOP_LIMITS if on_event_loop else WORKER_LIMITS


def iterations_max(nodes: int, limits: RenderLimits = WORKER_LIMITS) -> int:
    """The iterations that all loops of a template of so many nodes may have together."""
    return min(LOOP_ITERATIONS_MAX, limits.nodes_rendered_max // max(nodes, 1))
