"""A plan as a drawing of plain lines, for a terminal.

Nodes of one path stand below each other. Where a path splits, each of its ways is indented; where ways meet, what
follows stands below all of them, at the indentation of the node at which they split: its closest dominator.
"""

from collections.abc import Mapping, Sequence

from dispatcher.plans.definition.graph import GraphEdge, Order
from dispatcher.plans.drawing.labels import label, short
from dispatcher.plans.plan import Branch, Edge, Plan

# A line of a drawing, and the node that stands on it.
Line = tuple[str, str | None]


def drawing(plan: Plan) -> str:
    """The plan, a node on each line."""
    return "\n".join([*(text for text, _ in drawn_lines(plan)), ""])


def drawn_lines(plan: Plan) -> list[Line]:
    """The lines of the drawing of a plan."""
    return _Drawing(plan).lines()


class _Drawing:
    """A drawing under way. What is still to be drawn is kept, so that no plan is too deep."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        ways = [GraphEdge(name, edge.to, "") for name, edges in plan.edges.items() for edge in edges]
        self._leading: dict[str, list[str]] = {name: [] for name in plan.nodes}
        for way in ways:
            self._leading[way.end].append(way.start)
        order = Order(plan.nodes, ways).names
        self._meeting: dict[str, list[str]] = {name: [] for name in plan.nodes}
        for name, split in _splits(order, self._leading).items():
            if len(self._leading[name]) > 1:
                self._meeting[split].append(name)
        # Lines that are ready, and nodes (with None) whose lines are to be made.
        self._left: list[Line] = [("", plan.entry)]

    def lines(self) -> list[Line]:
        made: list[Line] = []
        while self._left:
            text, name = self._left.pop()
            if name is None:
                made.append((text, None))
            else:
                made.append((f"{text}● {name}  {label(self._plan.nodes[name])}", name))
                self._left += reversed(self._below(name, text))
        return made

    def _below(self, name: str, indent: str) -> list[Line]:
        """The lines below a node."""
        edges = self._plan.edges.get(name, ())
        meeting = self._meeting[name]
        if len(edges) == 1 and not isinstance(self._plan.nodes[name], Branch):
            below = self._straight(edges[0], indent)
        else:
            below = self._split(name, edges, indent, has_more=bool(meeting))
        for other in meeting:
            below += [(f"{indent}▼", None), (indent, other)]
        return below

    def _straight(self, edge: Edge, indent: str) -> list[Line]:
        if len(self._leading[edge.to]) > 1:
            return [(f"{indent}╰→ {edge.to}", None)]
        return [(f"{indent}│", None), (indent, edge.to)]

    def _split(self, name: str, edges: Sequence[Edge], indent: str, *, has_more: bool) -> list[Line]:
        is_choice = isinstance(self._plan.nodes[name], Branch)
        below: list[Line] = []
        for number, edge in enumerate(edges, start=1):
            is_last = number == len(edges) and not has_more
            words = f"if {short(edge.condition)}" if edge.condition else "otherwise" if is_choice else "and"
            head, inner = ("╰─ ", "   ") if is_last else ("├─ ", "│  ")
            if len(self._leading[edge.to]) > 1:
                below.append((f"{indent}{head}{words} → {edge.to}", None))
            else:
                below += [(f"{indent}{head}{words}", None), (indent + inner, edge.to)]
        return below


def _splits(order: Sequence[str], leading: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """For each node but the entry the last one that all paths to it have in common."""
    found: dict[str, str] = {}
    depth = {order[0]: 0}
    for name in order[1:]:
        one = leading[name][0]
        for other in leading[name][1:]:
            far = other
            while one != far:
                if depth[one] >= depth[far]:
                    one = found[one]
                else:
                    far = found[far]
        found[name] = one
        depth[name] = depth[one] + 1
    return found
