"""The rates of a channel: one tenant's or domain's limit stops that one and nobody else."""

from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from dispatcher.engine.rules.life import Claimed, Lane
from dispatcher.engine.rules.rates import BUCKETS_MAX, Rates, domain_of

unhurried = settings(deadline=None)
_ids = count(1)


class One(Struct, frozen=True):
    """Something that carries a delivery."""

    item: Claimed


def _one(tenant: str = "t", recipient: str = "a@x.example") -> One:
    number = next(_ids)
    return One(
        Claimed(
            id=number,
            tenant_id=tenant,
            workspace_id="w",
            idempotency_key=f"k{number}",
            recipient=recipient,
            template="{}",
            variables="{}",
            options="{}",
            used=0,
            max_attempts=5,
            template_name=None,
            topic=None,
            run_id=None,
            campaign_run_id=None,
            sequence_id=None,
            watched=False,
            expired=False,
            dated=0,
            bound_to=None,
            passed_by=None,
            expires_at=0.0,
            traceparent=None,
            token=1,
            channel="email",
            lane=Lane.NORMAL,
        )
    )


senders = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["u@x.example", "u@y.example", "+49170"])), max_size=40
)


@unhurried
@given(senders, st.sampled_from([0.0, 1.0, 3.0]), st.sampled_from([0.0, 1.0, 2.0]))
def test_each_delivery_is_sent_or_deferred(
    batch: list[tuple[str, str]], tenant_rate: float, domain_rate: float
) -> None:
    rates = Rates(0.0, 0.0, 0.0, tenant_rate, domain_rate)
    ones = [_one(*sender) for sender in batch]
    admitted, late = rates.admit(0.0, ones, {})
    assert sorted([one.item.id for one in admitted] + [one.item.id for one, _ in late]) == [one.item.id for one in ones]
    assert all(wait > 0 for _, wait in late)


@unhurried
@given(senders, st.sampled_from([1.0, 3.0]), st.sampled_from([1.0, 2.0]))
def test_no_tenant_and_no_domain_gets_more_than_its_rate(
    batch: list[tuple[str, str]], tenant_rate: float, domain_rate: float
) -> None:
    rates = Rates(0.0, 0.0, 0.0, tenant_rate, domain_rate)
    admitted, _ = rates.admit(0.0, [_one(*sender) for sender in batch], {})
    for tenant in "abc":
        assert sum(one.item.tenant_id == tenant for one in admitted) <= tenant_rate
    for domain in ("x.example", "y.example"):
        assert sum(one.item.recipient.endswith(f"@{domain}") for one in admitted) <= domain_rate


def test_a_tenant_at_its_limit_stops_no_other() -> None:
    rates = Rates(0.0, 0.0, 0.0, 1.0, 0.0)
    admitted, late = rates.admit(0.0, [*(_one("loud") for _ in range(50)), _one("quiet")], {})
    assert [one.item.tenant_id for one in admitted] == ["loud", "quiet"]
    assert len(late) == 49


def test_a_domain_at_its_limit_stops_no_other_and_is_told_by_its_lower_case() -> None:
    rates = Rates(0.0, 0.0, 0.0, 0.0, 1.0)
    batch = [
        _one(recipient=recipient) for recipient in ("a@X.example", "b@x.EXAMPLE", "c@y.example", "+49170", "+49171")
    ]
    admitted, late = rates.admit(0.0, batch, {})
    assert [one.item.recipient for one, _ in late] == ["b@x.EXAMPLE"]
    assert len(admitted) == 4


def test_those_that_wait_come_back_one_by_one() -> None:
    rates = Rates(0.0, 0.0, 0.0, 2.0, 0.0)
    _, late = rates.admit(0.0, [_one() for _ in range(6)], {})
    waits = [wait for _, wait in late]
    assert waits == sorted(waits)
    assert [round(wait, 6) for wait in waits] == [0.5, 1.0, 1.5, 2.0, 2.5]


def test_a_waiting_tenant_returns_the_providers_tokens() -> None:
    rates = Rates(0.0, 10.0, 10.0, 1.0, 0.0)
    assert rates.take(0.0, 10) == 10
    admitted, late = rates.admit(0.0, [_one() for _ in range(10)], {})
    assert (len(admitted), len(late)) == (1, 9)
    assert rates.take(0.0, 10) == 9


@unhurried
@given(st.integers(1, 20))
def test_over_time_all_replicas_keep_the_rate(rate: int) -> None:
    rates = Rates(0.0, 0.0, 0.0, float(rate), 0.0)
    waiting: list[tuple[float, One]] = [(0.0, _one()) for _ in range(5 * rate)]
    gone: list[float] = []
    for _ in range(10_000):
        if not waiting:
            break
        now = min(due for due, _ in waiting)
        batch = [one for due, one in waiting if due <= now + 1e-9]
        waiting = [(due, one) for due, one in waiting if due > now + 1e-9]
        admitted, late = rates.admit(now + 1e-9, batch, {})
        gone += [now] * len(admitted)
        waiting += [(now + 1e-9 + wait, one) for one, wait in late]
    assert not waiting
    assert max(gone) <= 5 + 0.01
    for start in gone:
        assert sum(start <= at < start + 1 for at in gone) <= rate + 1


def test_the_limiters_of_tenants_are_bounded() -> None:
    rates = Rates(0.0, 0.0, 0.0, 1.0, 0.0)
    for number in range(BUCKETS_MAX + 100):
        rates.admit(0.0, [_one(f"t{number}")], {})
    assert len(rates._tenants) == BUCKETS_MAX


def test_without_limits_everything_goes() -> None:
    rates = Rates(0.0, 0.0, 0.0, 0.0, 0.0)
    batch = [_one() for _ in range(100)]
    assert rates.admit(0.0, batch, {}) == (batch, [])


def test_a_limit_that_changes_counts_from_then_on() -> None:
    rates = Rates(0.0, 0.0, 0.0, 1.0, 0.0)
    assert len(rates.admit(0.0, [_one() for _ in range(10)], {})[0]) == 1
    rates.tune(0.0, 0.0, 0.0, 200.0, 0.0)
    # What was taken stays taken: a full bucket for each change would be more than either limit.
    assert rates.admit(0.0, [_one() for _ in range(10)], {})[0] == []
    assert len(rates.admit(0.1, [_one() for _ in range(10)], {})[0]) == 4


def test_a_domain_that_asked_for_a_pause_waits_alone_and_without_any_limit_configured() -> None:
    rates = Rates(0.0, 0.0, 0.0, 0.0, 0.0)
    rates.close(0.0, 60.0, "x.example")
    slow, other, no_address = _one(recipient="a@X.example"), _one(recipient="a@y.example"), _one(recipient="+49170")
    assert rates.admit(20.0, [slow, other, no_address], {}) == ([other, no_address], [(slow, 40.0)])
    assert rates.take(20.0, 5) == 5
    assert rates.admit(60.0, [slow, other], {}) == ([slow, other], [])


def test_a_shorter_pause_does_not_end_a_longer_one() -> None:
    rates = Rates(0.0, 0.0, 0.0, 0.0, 0.0)
    rates.close(0.0, 60.0, "x.example")
    rates.close(0.0, 5.0, "x.example")
    rates.close(0.0, 5.0, "y.example")
    late, early = _one(recipient="a@x.example"), _one(recipient="a@y.example")
    assert rates.admit(6.0, [late, early], {}) == ([early], [(late, 54.0)])


def test_pauses_of_domains_are_forgotten_past_a_bound() -> None:
    rates = Rates(0.0, 0.0, 0.0, 0.0, 0.0)
    for number in range(BUCKETS_MAX + 1):
        rates.close(0.0, 60.0, f"{number}.example")
    assert len(rates.admit(1.0, [_one(recipient="a@0.example")], {})[0]) == 1
    assert len(rates.admit(1.0, [_one(recipient="a@1.example")], {})[0]) == 0


@pytest.mark.parametrize(
    ("recipient", "domain"),
    [
        ("ann@Example.ORG", "example.org"),
        ("Ann <ann@example.org>", "example.org"),
        ('"a@b"@example.org', "example.org"),
        ("ann@bücher.example", "xn--bcher-kva.example"),
        ("ann@\ud800.example", "\ud800.example"),
        ("+49170123", ""),
        ("", ""),
    ],
)
def test_the_domain_of_a_recipient_is_its_ascii_form(recipient: str, domain: str) -> None:
    assert domain_of(recipient) == domain
