"""The graph of a definition: whether its edges fit its nodes, whether it ends, and the order of its nodes."""

from collections.abc import Collection, Mapping, Sequence
from graphlib import TopologicalSorter

from msgspec import Struct

from dispatcher.base.errors import SHOWN_CHARACTERS_MAX, quoted
from dispatcher.plans.definition.paths import Faults

# A longer circle is shown by its beginning and its end.
SHOWN_NODES_MAX = 12


class GraphEdge(Struct, frozen=True):
    """An edge between two existing nodes, and where it is written."""

    start: str
    end: str
    place: str


def check(entry: str | None, nodes: Mapping[str, str], edges: Sequence[GraphEdge], faults: Faults) -> None:
    """Report circles, and nodes that the entry, where there is one, does not lead to. `nodes` has the place of each."""
    following = _following(nodes, edges)
    places = {(edge.start, edge.end): edge.place for edge in edges}
    for circle in _circles(following):
        place = places[circle[-2], circle[-1]]
        faults.add(place, f"closes a circle, so that a run would never end: {_shown(circle)}")
    if entry is None:
        return
    reached = _reached(entry, following)
    for name, place in nodes.items():
        if name not in reached:
            faults.add(place, f"cannot be reached from the entry {quoted(entry)}: lead an edge to it, or take it out")


class Order:
    """The order of the nodes of a graph without circles."""

    def __init__(self, nodes: Collection[str], edges: Sequence[GraphEdge]) -> None:
        sorter = TopologicalSorter[str](dict.fromkeys(nodes, ()))
        for edge in edges:
            sorter.add(edge.end, edge.start)
        # Each behind those that come before it.
        self.names = tuple(sorter.static_order())
        self._bits = {name: 1 << number for number, name in enumerate(nodes)}
        # Of each node, the bits of all that come before it.
        self._before = dict.fromkeys(nodes, 0)
        following = _following(nodes, edges)
        for name in self.names:
            for end in following[name]:
                self._before[end] |= self._before[name] | self._bits[name]

    def is_before(self, one: str, other: str) -> bool:
        """Whether a path leads from the one to the other."""
        return bool(self._before[other] & self._bits[one])


def _following(nodes: Collection[str], edges: Sequence[GraphEdge]) -> Mapping[str, list[str]]:
    following: dict[str, list[str]] = {name: [] for name in nodes}
    for edge in edges:
        following[edge.start].append(edge.end)
    return following


def _reached(entry: str, following: Mapping[str, list[str]]) -> set[str]:
    reached, waiting = {entry}, [entry]
    while waiting:
        for end in following[waiting.pop()]:
            if end not in reached:
                reached.add(end)
                waiting.append(end)
    return reached


def _circles(following: Mapping[str, list[str]]) -> list[list[str]]:
    """Circles, at least one for each knot of them, as nodes in order with the first one repeated at the end."""
    left = {name: iter(ends) for name, ends in following.items()}
    done: set[str] = set()
    found: list[list[str]] = []
    for root in following:
        path = [] if root in done else [root]
        places = {root: 0}
        while path:
            end = next(left[path[-1]], None)
            if end is None:
                done.add(path.pop())
                places.popitem()
            elif end in places:
                found.append([*path[places[end] :], end])
            elif end not in done:
                places[end] = len(path)
                path.append(end)
    return found


def _shown(circle: Sequence[str]) -> str:
    names = list(map(_name, circle))
    if len(names) > SHOWN_NODES_MAX:
        half = SHOWN_NODES_MAX // 2
        names = [*names[:half], "…", *names[-half:]]
    return " -> ".join(names)


def _name(name: str) -> str:
    return name if name.isprintable() and len(name) <= SHOWN_CHARACTERS_MAX else quoted(name)
