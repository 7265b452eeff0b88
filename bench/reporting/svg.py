"""Plots as SVG, written by hand: a line, a histogram, and stacked bars."""

import math
from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 50, 50
BAR_HEIGHT = 34
TICKS = 5
BINS = 40
# Distinct without colours as well: their lightness differs.
COLOURS = ("#1b4f72", "#e67e22", "#7fb3d5", "#7d3c98", "#27ae60", "#c0392b", "#909497")
_HEAD = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
    'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
    '<text x="{left}" y="24" font-size="15">{title}</text>'
)


def line(title: str, across: str, up: str, points: Sequence[tuple[float, float]]) -> str:
    """A line through points, with both axes from 0."""
    plot = _Axes(title, across, up, 0.0, max(x for x, _ in points), max(y for _, y in points))
    way = " ".join(f"{plot.x(x):.1f},{plot.y(y):.1f}" for x, y in points)
    return plot.around(f'<polyline fill="none" stroke="{COLOURS[0]}" stroke-width="2" points="{way}"/>')


def histogram(title: str, across: str, values: Sequence[float]) -> str:
    """How often values lie in each of some equal ranges, from the smallest to the largest."""
    low, high = min(values), max(values)
    step = (high - low) / BINS or 1.0
    counts = [0] * BINS
    for value in values:
        counts[min(BINS - 1, int((value - low) / step))] += 1
    plot = _Axes(title, across, "number", low, low + step * BINS, max(counts))
    bars = (
        f'<rect x="{plot.x(low + place * step):.1f}" y="{plot.y(count):.1f}" '
        f'width="{plot.x(low + step) - plot.x(low) - 1:.1f}" height="{plot.y(0) - plot.y(count):.1f}" '
        f'fill="{COLOURS[0]}"/>'
        for place, count in enumerate(counts)
    )
    return plot.around("".join(bars))


def stacked(title: str, unit: str, bars: Mapping[str, Mapping[str, float]]) -> str:
    """A bar for each name, made of its parts, with their values."""
    height = TOP + sum(1.8 + 0.6 * len(parts) for parts in bars.values()) * BAR_HEIGHT
    longest = max((sum(parts.values()) for parts in bars.values()), default=0.0) or 1.0
    scale = (WIDTH - LEFT - RIGHT) / longest
    drawn = [_HEAD.format(width=WIDTH, height=height, left=LEFT, title=escape(title))]
    y = float(TOP)
    for name, parts in bars.items():
        drawn.append(f'<text x="{LEFT}" y="{y + 12}">{escape(name)}: {sum(parts.values()):.1f} {escape(unit)}</text>')
        y += BAR_HEIGHT / 2
        x = float(LEFT)
        for place, value in enumerate(parts.values()):
            colour = COLOURS[place % len(COLOURS)]
            drawn.append(f'<rect x="{x:.1f}" y="{y}" width="{value * scale:.1f}" height="18" fill="{colour}"/>')
            x += value * scale
        y += BAR_HEIGHT
        for place, (part, value) in enumerate(parts.items()):
            colour = COLOURS[place % len(COLOURS)]
            drawn.append(f'<rect x="{LEFT}" y="{y - 10}" width="12" height="12" fill="{colour}"/>')
            drawn.append(f'<text x="{LEFT + 18}" y="{y}">{escape(part)}: {value:.2f}</text>')
            y += BAR_HEIGHT * 0.6
        y += BAR_HEIGHT * 0.3
    return "".join([*drawn, "</svg>\n"])


class _Axes:
    """The frame of a plot: where a value stands, and the ticks."""

    def __init__(self, title: str, across: str, up: str, low: float, high: float, top: float) -> None:
        self._title, self._across, self._up = title, across, up
        self._low, self._high, self._top = low, high if high > low else low + 1.0, _round_up(top)

    def x(self, value: float) -> float:
        """Where a value stands from the left."""
        return LEFT + (value - self._low) / (self._high - self._low) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        """Where a value stands from above."""
        return HEIGHT - BOTTOM - value / self._top * (HEIGHT - TOP - BOTTOM)

    def around(self, drawn: str) -> str:
        """The whole plot."""
        parts = [_HEAD.format(width=WIDTH, height=HEIGHT, left=LEFT, title=escape(self._title))]
        for tick in range(TICKS + 1):
            up, across = self._top * tick / TICKS, self._low + (self._high - self._low) * tick / TICKS
            parts.append(
                f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{self.y(up):.1f}" y2="{self.y(up):.1f}" stroke="#ddd"/>'
                f'<text x="{LEFT - 8}" y="{self.y(up) + 4:.1f}" text-anchor="end">{up:,.6g}</text>'
                f'<text x="{self.x(across):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{across:,.3g}</text>'
            )
        middle = (LEFT + WIDTH - RIGHT) / 2
        parts.append(f'<text x="{middle}" y="{HEIGHT - 10}" text-anchor="middle">{escape(self._across)}</text>')
        parts.append(f'<text x="{LEFT}" y="{TOP - 8}">{escape(self._up)}</text>')
        return "".join([*parts, drawn, "</svg>\n"])


def _round_up(value: float) -> float:
    """The next number above that has one digit and zeros."""
    if value <= 0:
        return 1.0
    digit = 10.0 ** math.floor(math.log10(value))
    return math.ceil(value / digit) * digit
