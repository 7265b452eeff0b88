"""Layout of graphs: a column and row for each node, and of a large graph the part around some of its nodes."""

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

# Above it only a part is drawn, which has so many nodes.
NODES_MAX = 60
PART_NODES_MAX = 24
# Each sweep goes forward and back; more change nothing that is seen.
_SWEEPS = 4

Ways = Mapping[str, Sequence[str]]


class Place(Struct, frozen=True):
    """Where a node is drawn."""

    col: int
    row: float


class Layout(Struct, frozen=True):
    """The places of nodes, and of the bends of edges that pass columns.

    `paths` has every edge as its node, its bends and the node that it leads to. `hidden` says how many neighbours of
    a node are not drawn.
    """

    places: Mapping[str, Place]
    bends: Mapping[str, Place]
    paths: Sequence[Sequence[str]]
    hidden: Mapping[str, int]


def laid_out(ways: Ways, near: Sequence[str]) -> Layout:
    """Return the layout of a graph, or of its part around the nodes `near`. `ways` has where each node leads to."""
    names = list(ways) if len(ways) <= NODES_MAX else _part(ways, near)
    drawn = set(names)
    inner = {name: [end for end in dict.fromkeys(ways[name]) if end in drawn] for name in names}
    columns = _columns(inner)
    paths, bends = _paths(inner, columns)
    columns |= bends
    rows = _rows(columns, paths)
    places = {name: Place(columns[name], rows[name]) for name in columns}
    beside = _neighbours(ways)
    hidden = {name: sum(one not in drawn for one in beside[name]) for name in names}
    return Layout(
        places={name: places[name] for name in names},
        bends={name: places[name] for name in bends},
        paths=paths,
        hidden={name: count for name, count in hidden.items() if count},
    )


def _neighbours(ways: Ways) -> dict[str, list[str]]:
    beside: dict[str, dict[str, None]] = {name: dict.fromkeys(ends) for name, ends in ways.items()}
    for name, ends in ways.items():
        for end in ends:
            beside[end][name] = None
    return {name: list(others) for name, others in beside.items()}


def _part(ways: Ways, near: Sequence[str]) -> list[str]:
    """Return the nodes that are closest to some, in the order of the graph."""
    beside = _neighbours(ways)
    left = deque([name for name in near if name in ways] or list(ways)[:1])
    found = dict.fromkeys(left)
    while left and len(found) < PART_NODES_MAX:
        fresh = [one for one in beside[left.popleft()] if one not in found]
        found |= dict.fromkeys(fresh)
        left += fresh
    kept = set(list(found)[:PART_NODES_MAX])
    return [name for name in ways if name in kept]


def _columns(ways: Ways) -> dict[str, int]:
    """Return the column of each node: one behind the last of those that lead to it."""
    waits = dict.fromkeys(ways, 0)
    for ends in ways.values():
        for end in ends:
            waits[end] += 1
    columns = dict.fromkeys(ways, 0)
    ready = deque(name for name, count in waits.items() if not count)
    while ready:
        name = ready.popleft()
        for end in ways[name]:
            columns[end] = max(columns[end], columns[name] + 1)
            waits[end] -= 1
            if not waits[end]:
                ready.append(end)
    return columns


def _paths(ways: Ways, columns: Mapping[str, int]) -> tuple[list[list[str]], dict[str, int]]:
    paths: list[list[str]] = []
    bends: dict[str, int] = {}
    for name, ends in ways.items():
        for end in ends:
            between = {f"{name}\0{end}\0{col}": col for col in range(columns[name] + 1, columns[end])}
            bends |= between
            paths.append([name, *between, end])
    return paths, bends


def _rows(columns: Mapping[str, int], paths: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return a row for each: as near to those before and behind it as the others in its column let it be."""
    before: dict[str, list[str]] = {name: [] for name in columns}
    behind: dict[str, list[str]] = {name: [] for name in columns}
    for path in paths:
        for start, end in pairwise(path):
            behind[start].append(end)
            before[end].append(start)
    members: dict[int, list[str]] = {}
    for name, col in columns.items():
        members.setdefault(col, []).append(name)
    rows = {name: float(row) for names in members.values() for row, name in enumerate(names)}
    forward = sorted(members)
    for _ in range(_SWEEPS):
        for order, beside in ((forward, before), (forward[::-1], behind)):
            for col in order:
                _settle(members[col], beside, rows)
    for col in forward:
        _settle(members[col], before, rows)
    top = min(rows.values(), default=0)
    return {name: row - top for name, row in rows.items()}


def _settle(names: list[str], beside: Mapping[str, Sequence[str]], rows: dict[str, float]) -> None:
    """Put the nodes of a column beside their neighbours, at least a row apart."""
    wanted = {one: sum(rows[n] for n in beside[one]) / len(beside[one]) if beside[one] else rows[one] for one in names}
    names.sort(key=lambda one: (wanted[one], rows[one]))
    # Those that would be too close share a block around the mean of what they want: (the sum of that, its nodes).
    blocks: list[tuple[float, int]] = []
    for number, one in enumerate(names):
        total, count = wanted[one] - number, 1
        while blocks and blocks[-1][0] / blocks[-1][1] >= total / count:
            more, others = blocks.pop()
            total, count = total + more, count + others
        blocks.append((total, count))
    places = [total / count for total, count in blocks for _ in range(count)]
    for number, (one, place) in enumerate(zip(names, places, strict=True)):
        rows[one] = round(2 * place) / 2 + number
