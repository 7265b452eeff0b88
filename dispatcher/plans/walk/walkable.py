"""A plan made ready to be walked: its graph with what is reachable from where, and the Liquid of its nodes.

It is kept as long as its version is walked, so that a walk costs little. A node's texts are read when a run first comes
to it.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from dispatcher.base.errors import NeedsWorker, TemplateError
from dispatcher.base.values.durations import MOMENT_WORDS, moment
from dispatcher.plans.plan import Branch, Call, Delay, Digest, Node, Plan, Send, Wait
from dispatcher.plans.texts import Bounds, Context, Texts, Value
from dispatcher.plans.walk.deliveries import Calls, Digests, Sends
from dispatcher.plans.walk.run import Visit

DEFAULT_BOUNDS = Bounds()
# Of a processor, for the texts of one walk, hurried: one more may begin just before the end.
WALK_SECONDS_MAX = 0.005


class Choices:
    """The edges of a branch: each place with the condition that leads there."""

    __slots__ = ("_conditions",)

    def __init__(self, conditions: "list[tuple[Value | None, Place]]") -> None:
        self._conditions = conditions

    def taken(self, context: Context) -> "Place | None":
        """Where it goes on: the first condition that holds, else the edge without one, else nowhere."""
        otherwise = None
        for condition, place in self._conditions:
            if condition is None:
                otherwise = place
            elif condition.of(context):
                return place
        return otherwise


class Until:
    """A time that a delay ends at, as it is written."""

    __slots__ = ("_text",)

    def __init__(self, text: Value) -> None:
        self._text = text

    def of(self, context: Context) -> float:
        """Seconds since 1970."""
        value = self._text.of(context)
        seconds = moment(value) if isinstance(value, str) else None
        if seconds is None:
            raise TemplateError("until", f"no time as in {MOMENT_WORDS}: {str(value)[:100]!r}")
        return seconds


Ready = Sends | Calls | Digests | Choices | Until | None


class Place:
    """A node in its graph. Masks have a bit for each node, in the order of the definition."""

    __slots__ = (
        "_ready",
        "_walkable",
        "below",
        "bit",
        "error",
        "id",
        "is_meeting",
        "is_readied",
        "node",
        "number",
        "otherwise",
        "result",
        "targets",
    )

    def __init__(self, walkable: "Walkable", name: str, node: Node, number: int) -> None:
        self._walkable = walkable
        self._ready: Ready = None
        self.is_readied = False
        self.id = name
        self.node = node
        self.number = number
        self.bit = 1 << number
        # What can be reached from here, this node left out.
        self.below = 0
        # Several edges lead here.
        self.is_meeting = False
        self.targets: tuple[Place, ...] = ()
        # Where a branch goes on whose conditions cannot be told.
        self.otherwise: tuple[Place, ...] = ()
        self.error = f"step_{node.step}_error"
        self.result = f"step_{node.step}_result"

    @property
    def ready(self) -> Any:  # noqa: ANN401 - of the class that its node's kind has
        """Its texts, read when they are first asked for; raises where one does not parse."""
        if not self.is_readied:
            self._ready = self._walkable.read(self)
            self.is_readied = True
        return self._ready


class Walkable:
    """A plan, ready."""

    __slots__ = ("_end", "_texts", "bounds", "by_number", "entry", "listens", "places", "plan")

    def __init__(self, plan: Plan, bounds: Bounds) -> None:
        self.plan = plan
        self.bounds = bounds
        self._texts: Texts | None = None
        self._end = float("inf")
        self.places: Mapping[str, Place] = {
            name: Place(self, name, plan.nodes[name], number)
            # Whoever stored the plan may have put its nodes into an order of their own.
            for number, name in enumerate(sorted(plan.nodes, key=lambda one: plan.nodes[one].step))
        }
        self.by_number = tuple(self.places.values())
        self.entry = self.places[plan.entry]
        # Some node of it waits for events.
        self.listens = any(isinstance(node, Wait) for node in plan.nodes.values())
        self._connect()

    @classmethod
    def of(cls, plan: Plan, bounds: Bounds = DEFAULT_BOUNDS) -> "Walkable":
        """A plan made ready; raises ValueError for one that goes in a circle."""
        return cls(plan, bounds)

    def begin(self) -> None:
        """A walk begins. Hurried, it raises NeedsWorker when its texts take too long together."""
        if self.bounds.pace.is_hurried:
            self._end = time.thread_time() + WALK_SECONDS_MAX

    def _look(self) -> None:
        if time.thread_time() >= self._end:
            raise NeedsWorker

    def read(self, place: Place) -> Ready:
        """The texts of a node."""
        if self._texts is None:
            self._texts = Texts(self.bounds, self._look)
        texts, node = self._texts, place.node
        match node:
            case Send():
                return Sends(place.id, node, texts, self.bounds)
            case Call():
                return Calls(place.id, node, texts, self.plan.call_seconds_max)
            case Digest():
                return Digests(place.id, node, texts, self.bounds)
            case Branch():
                return Choices(
                    [
                        (texts.condition("condition", edge.condition) if edge.condition is not None else None, target)
                        for edge, target in zip(self.plan.edges.get(place.id, ()), place.targets, strict=True)
                    ]
                )
            case Delay() if node.until is not None:
                return Until(texts.text("until", node.until))
            case _:
                return None

    def free(self, cursor: Mapping[str, Visit]) -> list[Place]:
        """Those that wait for others, and that nothing in the cursor can come to any more; in the order of the plan."""
        joining = [self.places[name] for name, visit in cursor.items() if visit.standing == "joining"]
        if not joining:
            return joining
        to_come = 0
        for name in cursor:
            to_come |= self.places[name].below
        return sorted((place for place in joining if not place.bit & to_come), key=lambda one: one.number)

    def cut_off(self, place: Place, cursor: Iterable[str], arrived: Iterable[Place]) -> Iterator[Place]:
        """What this node could have led to, and nothing leads to now."""
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
        """Lay the edges, and see what each node leads to: the last ones first."""
        incoming = dict.fromkeys(self.places, 0)
        for name, place in self.places.items():
            edges = self.plan.edges.get(name, ())
            place.targets = tuple(self.places[edge.to] for edge in edges)
            place.otherwise = tuple(self.places[edge.to] for edge in edges if edge.condition is None)[:1]
            for target in place.targets:
                incoming[target.id] += 1
        for name, count in incoming.items():
            self.places[name].is_meeting = count > 1
        in_order = [place for name, place in self.places.items() if not incoming[name]]
        for place in in_order:
            for target in place.targets:
                incoming[target.id] -= 1
                if not incoming[target.id]:
                    in_order.append(target)
        if len(in_order) < len(self.places):
            raise ValueError("a plan that goes in a circle")
        for place in reversed(in_order):
            for target in place.targets:
                place.below |= target.bit | target.below


class Watched(Walkable):
    """A plan whose first coming to each node with texts is seen by somebody, who may end the walk by raising."""

    __slots__ = ("_seen",)

    def __init__(self, plan: Plan, seen: Callable[[], None], bounds: Bounds = DEFAULT_BOUNDS) -> None:
        super().__init__(plan, bounds)
        self._seen = seen

    def read(self, place: Place) -> Ready:
        """The texts of a node."""
        self._seen()
        return super().read(place)
