"""Counters, gauges and histograms, and their text for Prometheus.

prometheus_client makes an object and a dictionary for each sample of each scrape, which for 12,000 series held the
event loop for 400 ms. Here the name and the labels of a series are written once, as it begins; a scrape joins them with
the values.
"""

import math
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar, Generic, Literal, Protocol, TypeVar

from prometheus_client import ProcessCollector
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST

CONTENT_TYPE = CONTENT_TYPE_LATEST
Kind = Literal["counter", "gauge", "histogram"]


class _Series(Protocol):
    def lines(self) -> Iterable[str]:
        """Return its samples."""


S = TypeVar("S", bound=_Series)


class CounterSeries:
    """One number that only grows."""

    def __init__(self, name: str, labels: str) -> None:
        self._head = f"{name}_total{_braced(labels)} "
        self.value = 0.0

    def inc(self, amount: float = 1.0) -> None:
        """Add to it."""
        self.value += amount

    def lines(self) -> Iterable[str]:
        """Return its sample."""
        return (self._head + _number(self.value),)


class GaugeSeries:
    """One number."""

    def __init__(self, name: str, labels: str) -> None:
        self._head = f"{name}{_braced(labels)} "
        self.value = 0.0

    def set(self, value: float) -> None:
        """Replace it."""
        self.value = float(value)

    def lines(self) -> Iterable[str]:
        """Return its sample."""
        return (self._head + _number(self.value),)


class HistogramSeries:
    """How many values lie below each bound, and their sum."""

    def __init__(self, name: str, labels: str, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        before = f"{labels}," if labels else ""
        # The last is that of values above all bounds.
        self._heads = [f'{name}_bucket{{{before}le="{_number(bound)}"}} ' for bound in (*map(float, bounds), math.inf)]
        self._counts = [0] * len(self._heads)
        self._count_head, self._sum_head = f"{name}_count{_braced(labels)} ", f"{name}_sum{_braced(labels)} "
        self.sum = 0.0

    @property
    def count(self) -> int:
        """The number of values."""
        return sum(self._counts)

    def observe(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    @contextmanager
    def time(self) -> Iterator[None]:
        """Count the seconds that the block takes, also where it fails."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.observe(time.perf_counter() - began)

    def lines(self) -> Iterable[str]:
        """Return its samples."""
        below = 0
        for head, count in zip(self._heads, self._counts, strict=True):
            below += count
            yield f"{head}{below}.0"
        yield f"{self._count_head}{below}.0"
        yield self._sum_head + _number(self.sum)


class Family(Generic[S]):
    """All series of one name. Without labels there is one, from the beginning."""

    kind: ClassVar[Kind]
    # What the names of its samples end with.
    endings: ClassVar[Sequence[str]] = ("",)

    def __init__(self, name: str, text: str, labels: Sequence[str] = ()) -> None:
        self.name = name
        self.label_names = tuple(labels)
        self._header = f"# HELP {name} {text}\n# TYPE {name} {self.kind}"
        self._series: dict[tuple[str, ...], S] = {}
        self._only: S | None = None if labels else self.labels()

    def labels(self, *values: str) -> S:
        """Return the series of these values of the labels, in their order."""
        found = self._series.get(values)
        if found is None:
            pairs = zip(self.label_names, values, strict=True)
            found = self._series[values] = self._make(",".join(f'{name}="{_escaped(text)}"' for name, text in pairs))
        return found

    @property
    def only(self) -> S:
        """The series of a family without labels."""
        if self._only is None:
            raise TypeError(f"{self.name} has the labels {', '.join(self.label_names)}")
        return self._only

    def _make(self, labels: str) -> S:
        raise NotImplementedError

    def lines(self) -> Iterator[str]:
        """Return its header, then the samples of all series."""
        yield self._header
        for series in self._series.values():
            yield from series.lines()


class Counter(Family[CounterSeries]):
    """Counters."""

    kind = "counter"
    endings = ("_total",)

    def _make(self, labels: str) -> CounterSeries:
        return CounterSeries(self.name, labels)

    def inc(self, amount: float = 1.0) -> None:
        """Add to the only series."""
        self.only.inc(amount)


class Gauge(Family[GaugeSeries]):
    """Gauges."""

    kind = "gauge"

    def _make(self, labels: str) -> GaugeSeries:
        return GaugeSeries(self.name, labels)

    def set(self, value: float) -> None:
        """Replace the number of the only series."""
        self.only.set(value)


class Histogram(Family[HistogramSeries]):
    """Histograms with the same bounds."""

    kind = "histogram"
    endings = ("_bucket", "_count", "_sum")

    def __init__(self, name: str, text: str, bounds: Sequence[float], labels: Sequence[str] = ()) -> None:
        self._bounds = tuple(bounds)
        super().__init__(name, text, labels)

    def _make(self, labels: str) -> HistogramSeries:
        return HistogramSeries(self.name, labels, self._bounds)


class Process:
    """What the kernel says of this process; nothing where there is no /proc."""

    def __init__(self, namespace: str) -> None:
        self._collector = ProcessCollector(namespace=namespace, registry=None)

    def lines(self) -> Iterator[str]:
        """Return the families with their samples."""
        for family in self._collector.collect():
            yield f"# HELP {family.name} {family.documentation}\n# TYPE {family.name} {family.type}"
            for sample in family.samples:
                yield f"{sample.name} {_number(sample.value)}"


class Registry:
    """All families of a process, in the order in which they were added."""

    def __init__(self) -> None:
        self.families: list[Counter | Gauge | Histogram] = []
        self.others: list[Process] = []

    def text(self) -> bytes:
        """Return all samples, in the format of OpenMetrics."""
        lines = [line for one in (*self.families, *self.others) for line in one.lines()]
        return "\n".join((*lines, "# EOF\n")).encode()


def _braced(labels: str) -> str:
    return f"{{{labels}}}" if labels else ""


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    if math.isnan(value):
        return "NaN"
    return "+Inf" if value > 0 else "-Inf"
