"""The series and their text: the official parser reads what was counted, and writes what we write."""

import math

import prometheus_client
import pytest
from prometheus_client.openmetrics.exposition import generate_latest

from dispatcher.base.series import Counter, Gauge, Histogram, Registry
from tests.support.metering import scraped

BOUNDS = (0.1, 1, 5)
ODD = 'a "quoted" \\ word\nand another, ü {}='


@pytest.fixture
def registry() -> Registry:
    """Something of each kind, with and without labels."""
    made = Registry()
    sent = Counter("sent", "What was sent", ("channel", "tenant"))
    sent.labels("sms", ODD).inc(3)
    sent.labels("email", "").inc()
    bare = Counter("bare", "Without labels")
    depth = Gauge("depth", "What waits", ("lane",))
    for lane, value in (("up", math.inf), ("down", -math.inf), ("none", math.nan), ("large", 1e22), ("half", 0.5)):
        depth.labels(lane).set(value)
    took = Histogram("took_seconds", "How long it took", BOUNDS)
    calls = Histogram("call_seconds", "How long calls took", BOUNDS, ("channel",))
    for value in (0.1, 0.2, 1.0, 7.0):
        took.only.observe(value)
        calls.labels("sms").observe(value)
    made.families += [sent, bare, depth, took, calls]
    return made


def _theirs() -> prometheus_client.CollectorRegistry:
    made = prometheus_client.CollectorRegistry()
    sent = prometheus_client.Counter("sent", "What was sent", ("channel", "tenant"), registry=made)
    sent.labels("sms", ODD).inc(3)
    sent.labels("email", "").inc()
    prometheus_client.Counter("bare", "Without labels", registry=made)
    depth = prometheus_client.Gauge("depth", "What waits", ("lane",), registry=made)
    for lane, value in (("up", math.inf), ("down", -math.inf), ("none", math.nan), ("large", 1e22), ("half", 0.5)):
        depth.labels(lane).set(value)
    took = prometheus_client.Histogram("took_seconds", "How long it took", buckets=BOUNDS, registry=made)
    calls = prometheus_client.Histogram(
        "call_seconds", "How long calls took", ("channel",), buckets=BOUNDS, registry=made
    )
    for value in (0.1, 0.2, 1.0, 7.0):
        took.observe(value)
        calls.labels("sms").observe(value)
    return made


def test_the_text_is_that_of_the_official_library(registry: Registry) -> None:
    theirs = generate_latest(_theirs()).decode()  # type: ignore[no-untyped-call]  # the library has no annotation here
    without_begin = [line for line in theirs.splitlines() if "_created" not in line]
    assert registry.text().decode().splitlines() == without_begin


def test_the_official_parser_reads_it(registry: Registry) -> None:
    found = {(one.name, *one.labels.values()): one.value for family in scraped(registry) for one in family.samples}
    assert (found["sent_total", "sms", ODD], found["bare_total",]) == (3, 0)
    assert [found["took_seconds_bucket", le] for le in ("0.1", "1.0", "5.0", "+Inf")] == [1, 3, 3, 4]
    assert found["took_seconds_count",] == 4
    assert found["took_seconds_sum",] == pytest.approx(8.3)


def test_a_series_is_the_same_each_time_and_needs_all_of_its_labels() -> None:
    one = Gauge("depth", "What waits", ("channel", "lane"))
    assert one.labels("sms", "bulk") is one.labels("sms", "bulk")
    with pytest.raises(ValueError, match="shorter"):
        one.labels("sms")
    with pytest.raises(TypeError, match="depth has the labels channel, lane"):
        one.set(1)


def test_a_time_is_counted_also_where_the_block_fails() -> None:
    took = Histogram("took_seconds", "How long it took", BOUNDS).only
    with pytest.raises(OSError, match="away"), took.time():
        raise OSError("away")
    assert (took.count, took.sum >= 0) == (1, True)
