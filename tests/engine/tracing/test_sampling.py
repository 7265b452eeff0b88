"""Sampling: the caller's decision is followed, the rest is sampled by a ratio, the same way by everybody."""

import pytest

from dispatcher.engine.tracing.sampling import Sampling, parent_of
from tests.engine.stage import claimed

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize("ratio", [0.0, 1.0])
@pytest.mark.parametrize(("flags", "is_sampled"), [("01", True), ("ff", True), ("00", False), ("fe", False)])
def test_what_the_caller_decided_holds_at_any_ratio(ratio: float, flags: str, is_sampled: bool) -> None:
    item = claimed(17, traceparent=f"00-{TRACE}-{SPAN}-{flags}")
    assert Sampling(ratio).sampled([item]) == [0] * is_sampled


@pytest.mark.parametrize("ratio", [0.0, 0.01, 0.25, 1.0])
@pytest.mark.parametrize("step", [1, 7, 1000, 1 << 43])
def test_of_the_rest_a_share_is_sampled_whatever_the_ids(ratio: float, step: int) -> None:
    sampling, count = Sampling(ratio), 20_000
    found = len(sampling.sampled([claimed(1 + number * step) for number in range(count)]))
    assert found == pytest.approx(ratio * count, rel=0.1)


def test_a_delivery_without_a_caller_names_its_trace_by_itself() -> None:
    item = claimed(17)
    trace_id, parent = parent_of(item)
    assert (len(trace_id), parent) == (32, None)
    assert parent_of(claimed(17, token=9)) == (trace_id, None)
    others = claimed(18), claimed(17, tenant_id="acme")
    assert len({trace_id, *(parent_of(other)[0] for other in others)}) == 3


def test_a_caller_is_the_parent() -> None:
    assert parent_of(claimed(17, traceparent=f"00-{TRACE}-{SPAN}-01")) == (TRACE, SPAN)
