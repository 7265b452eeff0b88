"""Metrics as a scrape sees them."""

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from dispatcher.base.series import Counter, CounterSeries, Gauge, GaugeSeries, Registry


def sample(metric: Counter | Gauge | CounterSeries | GaugeSeries) -> float:
    """The value of a counter or a gauge that has no labels, or of one of its series."""
    return (metric if isinstance(metric, CounterSeries | GaugeSeries) else metric.only).value


def scraped(registry: Registry) -> Iterator[Metric]:
    """What the official parser reads in the text of a registry."""
    parsed: Iterator[Metric] = text_string_to_metric_families(registry.text().decode())  # type: ignore[no-untyped-call]  # the library has no annotation here
    return parsed


def sample_value(registry: Registry, name: str, **labels: str) -> float | None:
    """The value of a sample by its name and its labels; None where there is none."""
    for family in scraped(registry):
        for one in family.samples:
            if one.name == name and one.labels == labels:
                return float(one.value)
    return None
