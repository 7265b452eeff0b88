"""A plan prepared for its walks: its graph with what is reachable from where, and the Liquid of its nodes.

It is cached as long as its version is walked, so that a walk costs little. A node's texts are parsed when a run first
comes to it.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from graphlib import TopologicalSorter
from typing import Any

from dispatcher.base.errors import NeedsWorker, TemplateError
from dispatcher.base.values.durations import MOMENT_WORDS, moment
from dispatcher.plans.plan import Branch, Call, Delay, Digest, Node, Plan, Send, Wait
from dispatcher.plans.texts import Bounds, Context, Texts, Value, condition_paths
from dispatcher.plans.walk.missing_steps import fill_missing
from dispatcher.plans.walk.node_actions import SendAction, call_action, digest_action
from dispatcher.plans.walk.run import Visit

DEFAULT_BOUNDS = Bounds()
# CPU time for the texts of one walk on the event loop: one more may begin just before the end.
WALK_SECONDS_MAX = 0.005


def branch_action(edges: "list[tuple[Value | None, Place]]") -> "Callable[[Context], Place | None]":
    """The function that chooses a branch's target: the first edge that holds, else the one without a condition."""
    default = next((place for condition, place in reversed(edges) if condition is None), None)

    def taken(context: Context) -> Place | None:
        holding = (place for condition, place in edges if condition is not None and condition(context))
        return next(holding, default)

    return taken


def until_action(text: Value) -> Callable[[Context], float]:
    """The function that returns the end of a delay, in seconds since 1970."""

    def until(context: Context) -> float:
        value = text(context)
        seconds = moment(value) if isinstance(value, str) else None
        if seconds is None:
            raise TemplateError("until", f"no time as in {MOMENT_WORDS}: {str(value)[:100]!r}")
        return seconds

    return until


class Place:
    """A node in its graph. Masks have a bit for each node, in the order of the definition."""

    def __init__(self, walkable: "Walkable", name: str, node: Node, number: int) -> None:
        self._walkable = walkable
        self.id = name
        self.node = node
        self.number = number
        self.bit = 1 << number
        # What can be reached from here, without this node.
        self.below = 0
        # Several edges lead here.
        self.is_meeting = False
        self.targets: tuple[Place, ...] = ()
        # Where a branch goes on whose conditions cannot be evaluated.
        self.otherwise: tuple[Place, ...] = ()
        self.error = f"step_{node.step}_error"
        self.result = f"step_{node.step}_result"

    @cached_property
    def action(self) -> Any:  # noqa: ANN401 - a function of the context, whose result depends on the kind of node
        """Its texts, parsed when it is first read; raises a TemplateError where one does not parse."""
        return self._walkable.action(self)


class Walkable:
    """A plan, prepared; raises ValueError for a plan with a circle.

    `on_node` is called when a walk first needs the texts of a node, and may end the walk by raising.
    """

    def __init__(
        self, plan: Plan, bounds: Bounds = DEFAULT_BOUNDS, *, on_node: Callable[[], None] = lambda: None
    ) -> None:
        self.plan = plan
        self.bounds = bounds
        self._on_node = on_node
        # Of this walk's texts; None until the first of them.
        self._end: float | None = float("inf")
        self.places: Mapping[str, Place] = {
            name: Place(self, name, plan.nodes[name], number)
            # JSONB storage may have changed the order of the plan's nodes.
            for number, name in enumerate(sorted(plan.nodes, key=lambda one: plan.nodes[one].step))
        }
        self.by_number = tuple(self.places.values())
        self.entry = self.places[plan.entry]
        self.waits_for_events = any(isinstance(node, Wait) for node in plan.nodes.values())
        self._connect()

    @cached_property
    def _texts(self) -> Texts:
        return Texts(self.bounds, self._check_time)

    @cached_property
    def stop_if(self) -> Callable[[Context], bool] | None:
        """The condition that ends an enrolment; fields that the contact does not have are null in it."""
        if self.plan.stop_if is None:
            return None
        holds = self._texts.condition("stop_if", self.plan.stop_if)
        paths = condition_paths(self._texts, self.plan.stop_if)
        return lambda context: bool(holds(fill_missing(context, paths)))

    def begin(self) -> None:
        """Begin a walk. On the event loop it raises NeedsWorker when its texts take too long together."""
        if self.bounds.limits.on_event_loop:
            self._end = None

    def _check_time(self) -> None:
        # The clock is a call of the system: walks without a text do not ask.
        now = time.thread_time() if self._end != float("inf") else 0.0
        if self._end is None:
            self._end = now + WALK_SECONDS_MAX
        elif now >= self._end:
            raise NeedsWorker

    def action(self, place: Place) -> Callable[..., Any] | None:
        """The function of a node with parsed texts; None for a node without texts."""
        self._on_node()
        texts, node, name = self._texts, place.node, place.id
        match node:
            case Send():
                return SendAction(name, node, texts, self.bounds).order
            case Call():
                return call_action(name, node, texts, self.plan.call_seconds_max)
            case Digest():
                return digest_action(name, node, texts, self.bounds)
            case Branch():
                conditions = [edge.condition for edge in self.plan.edges.get(name, ())]
                made = [None if one is None else texts.condition("condition", one) for one in conditions]
                return branch_action(list(zip(made, place.targets, strict=True)))
            case Delay() if node.until is not None:
                return until_action(texts.text("until", node.until))
            case _:
                return None

    def ready_joins(self, cursor: Mapping[str, Visit]) -> list[Place]:
        """The joining nodes that nothing in the cursor can reach any more, in the order of the plan."""
        joining = [self.places[name] for name, visit in cursor.items() if visit.standing == "joining"]
        to_come = 0
        for name in cursor if joining else ():
            to_come |= self.places[name].below
        return sorted((place for place in joining if not place.bit & to_come), key=lambda one: one.number)

    def unreachable(self, place: Place, cursor: Iterable[str], arrived: Iterable[Place]) -> Iterator[Place]:
        """The nodes that this one could have led to, and that nothing leads to now."""
        alive = 0
        for name in cursor:
            alive |= self.places[name].bit | self.places[name].below
        for one in arrived:
            alive |= one.bit | one.below
        left = place.below & ~alive
        while left:
            lowest = left & -left
            yield self.by_number[lowest.bit_length() - 1]
            left ^= lowest

    def _connect(self) -> None:
        """Connect the places by the edges, and compute what each leads to: the last places first."""
        incoming = Counter(edge.to for edges in self.plan.edges.values() for edge in edges)
        for name, place in self.places.items():
            edges = self.plan.edges.get(name, ())
            place.targets = tuple(self.places[edge.to] for edge in edges)
            place.otherwise = tuple(self.places[edge.to] for edge in edges if edge.condition is None)[:1]
            place.is_meeting = incoming[name] > 1
        order = TopologicalSorter({name: [one.id for one in place.targets] for name, place in self.places.items()})
        for place in map(self.places.__getitem__, order.static_order()):
            for target in place.targets:
                place.below |= target.bit | target.below
