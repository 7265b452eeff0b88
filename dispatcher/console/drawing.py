"""Charts and graphs as SVG: plain numbers in, markup with classes out, without styles or scripts."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from markupsafe import Markup, escape

STATES = ("pending", "claimed", "sending", "held", "parked", "sent", "failed", "skipped")
# Colours of lanes; other classes are states.
LANE_CLASSES = ("l1", "l2", "l3")
# Whatever is there is seen, of 1,000.
_WIDTH_MIN = 4.0
_NODE_WIDTH, _NODE_HEIGHT, _COLUMN, _ROW = 152, 48, 190, 68
# A graph that is wider keeps its size, and is scrolled; others shrink to what there is.
_FITS_WIDTH = 1_360


def _svg(parts: Iterable[str]) -> Markup:
    return Markup("".join(parts))  # noqa: S704 - every text in the parts is escaped where it is put there


def _num(value: float) -> str:
    text = f"{value:.1f}"
    return text.rstrip("0").rstrip(".")


def _fill(name: str) -> str:
    return name if name in LANE_CLASSES else f"f s-{escape(name)}"


def bar(parts: Sequence[tuple[str, float]], of: float = 0, size: str = "", label: str = "") -> Markup:
    """Return a stacked bar. `parts` are (class, count); `of` is the full width, else their sum."""
    total = of or sum(count for _, count in parts) or 1
    words = label or ", ".join(f"{count:,} {name}" for name, count in parts if count) or "none"
    out = [
        f'<svg class="bar {escape(size)}" viewBox="0 0 1000 8" preserveAspectRatio="none" role="img"'
        f' aria-label="{escape(words)}">'
    ]
    x = 0.0
    for name, count in parts:
        if count:
            width = max(1000 * min(count / total, 1), _WIDTH_MIN)
            out.append(f'<rect class="{_fill(name)}" x="{_num(x)}" width="{_num(max(width - 2, 2))}" height="8"/>')
            x += width
    return _svg((*out, "</svg>"))


def spark(values: Sequence[float], state: str = "", size: str = "", label: str = "") -> Markup:
    """Return a sparkline, oldest value first, scaled to the maximum."""
    top = max(values, default=0) or 1
    step = 100 / max(len(values) - 1, 1)
    line = " ".join(f"{_num(i * step)},{_num(23 - 21 * v / top)}" for i, v in enumerate(values)) or "0,23"
    css = f"spark {size} s-{state}" if state else f"spark {size}"
    words = f'role="img" aria-label="{escape(label)}"' if label else 'aria-hidden="true"'
    return _svg(
        (
            f'<svg class="{escape(css)}" viewBox="0 0 100 24" preserveAspectRatio="none" {words}>',
            f'<path class="under" d="M0,24 L{line} 100,24z"/><path d="M{line}"/></svg>',
        )
    )


def throughput(
    layers: Sequence[tuple[str, Sequence[float]]],
    top: float,
    bands: Sequence[tuple[int, int]] = (),
    label: str = "",
) -> Markup:
    """Return stacked columns: `layers` are (class, values), bottom first; `bands` are shaded ranges of columns."""
    count = max((len(values) for _, values in layers), default=0) or 1
    width = 1000 / count
    out = [f'<svg viewBox="0 0 1000 100" preserveAspectRatio="none" role="img" aria-label="{escape(label)}">']
    out += [
        f'<rect class="note-band" x="{_num(a * width)}" width="{_num((b - a) * width)}" height="100"/>'
        for a, b in bands
    ]
    out += [f'<path class="gridline" d="M0 {y}H1000"/>' for y in (0, 50)]
    floor = [100.0] * count
    for css, values in layers:
        path = []
        for i, value in enumerate(values):
            height = 100 * value / (top or 1)
            if height > 0:
                path.append(f"M{_num(i * width)} {_num(floor[i])}v{_num(-height)}h{_num(width * 0.78)}v{_num(height)}z")
                floor[i] -= height
        out.append(f'<path class="{_fill(css)}" d="{"".join(path)}"/>')
    return _svg((*out, '<path class="gridline base" d="M0 100H1000"/></svg>'))


def dag(nodes: Sequence[Mapping[str, Any]], edges: Sequence[tuple[str, str, str]], title: str) -> Markup:
    """Return a graph, left to right.

    A node has id, col, row, name, sub, state, say, and perhaps `here` and `href`; one that is a `bend` has the first
    three, and is where an edge passes a column. An edge is (from, to, label or "no").
    """
    at = {n["id"]: (12 + n["col"] * _COLUMN, round(8 + n["row"] * _ROW)) for n in nodes}
    bends = {n["id"] for n in nodes if n.get("bend")}
    width = max((x for x, _ in at.values()), default=0) + _NODE_WIDTH + 12
    height = max((y for _, y in at.values()), default=0) + _NODE_HEIGHT + 8
    css = "dag wide" if width > _FITS_WIDTH else "dag"
    out = [
        f'<svg class="{css}" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="group"'
        f' aria-label="{escape(title)}">'
    ]
    out += [_edge(at[a], at[b], kind, has_tip=b not in bends) for a, b, kind in edges]
    # A bend has the colour of the edge that comes out of it.
    out += [_bend(*at[a], kind) for a, _, kind in edges if a in bends]
    out += [_node(n, *at[n["id"]]) for n in nodes if n["id"] not in bends]
    return _svg((*out, "</svg>"))


def _edge(start: tuple[int, int], end: tuple[int, int], kind: str, *, has_tip: bool = True) -> str:
    x1, y1 = start[0] + _NODE_WIDTH, start[1] + _NODE_HEIGHT / 2
    x2, y2 = end[0], end[1] + _NODE_HEIGHT / 2
    bend = (x1 + x2) / 2 if x2 - x1 < _COLUMN else x2 - (_COLUMN - _NODE_WIDTH) / 2
    last = x2 - 5 if has_tip else x2
    if y1 == y2:
        path = f"M{_num(x1)} {_num(y1)}H{_num(last)}"
    else:
        r = 8 if y2 > y1 else -8
        path = f"M{_num(x1)} {_num(y1)}H{_num(bend - 8)}q8 0 8 {r}V{_num(y2 - r)}q0 {r} 8 {r}H{_num(last)}"
    css = "no" if kind == "no" else ""
    tip = f'<path class="tip {css}" d="M{_num(x2)} {_num(y2)}l-7 -4v8z"/>' if has_tip else ""
    return f'<path class="e {css}" d="{path}"/>{tip}'


def _bend(x: int, y: int, kind: str) -> str:
    css = "no" if kind == "no" else ""
    return f'<path class="e {css}" d="M{x} {_num(y + _NODE_HEIGHT / 2)}h{_NODE_WIDTH}"/>'


def _node(n: Mapping[str, Any], x: int, y: int) -> str:
    state = escape(n["state"])
    glyph = ""
    if n["state"] not in ("none", "plain"):
        glyph = f'<svg class="glyph" x="10" y="10" width="14" height="14"><use href="#{state}"/></svg>'
    href = n.get("href") or f"#step-{n['id']}"
    here = " here" if n.get("here") else ""
    return (
        f'<a href="{escape(href)}" aria-label="{escape(n["say"])}">'
        f'<g class="s-{state}{here}" transform="translate({x} {y})">'
        f'<rect width="{_NODE_WIDTH}" height="{_NODE_HEIGHT}" rx="7"/>{glyph}'
        f'<text x="{30 if glyph else 12}" y="21">{escape(n["name"])}</text>'
        f'<text class="sub" x="12" y="38">{escape(n["sub"])}</text></g></a>'
    )
