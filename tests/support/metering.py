"""Metrics as a scrape sees them."""

from prometheus_client.metrics import MetricWrapperBase


def sample(metric: MetricWrapperBase) -> float:
    """The value of a counter or a gauge that has no labels, or has them all."""
    (family,) = metric.collect()
    return family.samples[0].value
