"""Graphs of workflows: their nodes and edges as they are drawn, coloured by what a run has come to."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct

from dispatcher.console.layout import Layout, laid_out
from dispatcher.features.runs.steps import AHEAD, DONE, FAILED, SKIPPED, STANDINGS, STOPPED, Row
from dispatcher.features.workflows.models import Step

# What fits into a node.
_NAME_MAX, _NAME_MAX_WITH_GLYPH, _SUB_MAX = 20, 17, 23
# The class of each state of a node that a run is not at any more.
_CLASSES = {DONE: "sent", FAILED: "failed", SKIPPED: "skipped", STOPPED: "skipped", AHEAD: "none"}


class Graph(Struct, frozen=True):
    """A graph as it is drawn, and how many of its nodes are left out."""

    nodes: Sequence[Mapping[str, Any]]
    edges: Sequence[tuple[str, str, str]]
    left_out: int


def state(row: Row, status: str, held: int = 0) -> str:
    """Return the class of a node of a run."""
    if not row.is_here:
        return _CLASSES[row.state]
    if held:
        return "held"
    if status == "paused":
        return "parked"
    return "sending" if row.state == STANDINGS["sending"] else "claimed"


def graph(steps: Sequence[Step], chosen: str, states: Mapping[str, tuple[str, Row]] | None = None) -> Graph:
    """Return the graph of a workflow, or of a run with the state of each node.

    Of a large one the part around the node that is chosen, else around those that the run is at, else from its
    beginning on.
    """
    ways = {one.node: [way.to for way in one.leads_to] for one in steps}
    here = [name for name, (_, row) in (states or {}).items() if row.is_here]
    layout = laid_out(ways, [chosen] if chosen in ways else here)
    nodes = [_node(one, layout, states, chosen) for one in steps if one.node in layout.places]
    bends = [{"id": name, "col": at.col, "row": at.row, "bend": True} for name, at in layout.bends.items()]
    edges = [
        (start, end, "" if states is None or _walked(path, states) else "no")
        for path in layout.paths
        for start, end in pairwise(path)
    ]
    return Graph([*nodes, *bends], edges, len(steps) - len(nodes))


def _node(one: Step, layout: Layout, states: Mapping[str, tuple[str, Row]] | None, chosen: str) -> dict[str, Any]:
    css, row = ("none", None) if states is None else states[one.node]
    at = layout.places[one.node]
    more = layout.hidden.get(one.node, 0)
    said = row.state if row is not None and row.state else "not reached"
    is_plain = states is None
    return {
        "id": one.node,
        "col": at.col,
        "row": at.row,
        "name": _cut(one.node, _NAME_MAX if css == "none" else _NAME_MAX_WITH_GLYPH),
        "sub": _cut(f"+{more} not shown" if more else _sub(one, row), _SUB_MAX),
        "state": "plain" if is_plain else css,
        "say": f"{one.node}: {one.what}" if is_plain else f"{one.node}: {said}",
        "here": one.node == chosen or (row is not None and row.is_here),
        "href": f"?{urlencode({'at': one.node})}" if more else f"#step-{one.step}",
    }


def _sub(one: Step, row: Row | None) -> str:
    if row is not None and row.is_here:
        return row.state
    return (row.note or one.what) if row is not None and row.state == FAILED else one.what


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _walked(path: Sequence[str], states: Mapping[str, tuple[str, Row]]) -> bool:
    """Whether a run has gone along an edge, as far as its log tells."""
    start, end = states[path[0]][1], states[path[-1]][1]
    return start.state in (DONE, FAILED) and not start.is_here and end.state not in (AHEAD, SKIPPED)
