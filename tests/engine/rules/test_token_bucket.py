"""The token bucket: never more than its rate in any window, and what it says of waiting is exact."""

from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.engine.rules.token_bucket import Bucket

unhurried = settings(deadline=None)
rates = st.floats(0.01, 10_000)
bursts = st.one_of(st.just(0.0), st.floats(1, 1_000))
gaps = st.lists(st.tuples(st.floats(0, 100), st.integers(1, 500)), min_size=1, max_size=60)
# Sums of floats are off by a little: a millionth of a token is nobody's message.
ROUNDING = 1e-6


@unhurried
@given(rates, bursts, gaps)
def test_no_window_sees_more_than_the_burst_and_its_rate(
    rate: float, burst: float, steps: list[tuple[float, int]]
) -> None:
    bucket = Bucket.full(rate, burst, 0.0)
    now, taken = 0.0, [(0.0, 0)]
    for gap, wanted in steps:
        now += gap
        taken.append((now, bucket.take(now, wanted)))
    for first in range(len(taken)):
        for last in range(first, len(taken)):
            most = bucket.burst + rate * (taken[last][0] - taken[first][0])
            total = sum(count for _, count in taken[first : last + 1])
            assert total <= most * (1 + ROUNDING) + ROUNDING


@unhurried
@given(rates, bursts, gaps, st.integers(1, 5))
def test_after_its_wait_the_tokens_are_there(
    rate: float, burst: float, steps: list[tuple[float, int]], wanted: int
) -> None:
    bucket = _used(rate, burst, steps)
    wanted = min(wanted, int(bucket.burst))
    now = bucket.filled_at
    then = now + bucket.wait(now, wanted)
    # The sum of two times is rounded too: by less than a billionth of either.
    assert bucket.take(then * (1 + 1e-12) + 1e-9, wanted) == wanted


@unhurried
@given(rates, bursts, gaps, st.floats(0, 0.98))
def test_before_its_wait_is_over_they_are_not(
    rate: float, burst: float, steps: list[tuple[float, int]], part: float
) -> None:
    bucket = _used(rate, burst, steps)
    now = bucket.filled_at
    wait = bucket.wait(now)
    if wait * rate > 1e-3:
        assert bucket.take(now + wait * part, 1) == 0


@given(rates, bursts)
def test_a_wait_of_nothing_means_that_one_can_be_taken(rate: float, burst: float) -> None:
    bucket = Bucket.full(rate, burst, 0.0)
    assert bucket.wait(0.0) == 0
    assert bucket.take(0.0, 1) == 1


@given(rates, bursts, st.integers(1, 100), st.floats(0.001, 1_000))
def test_a_closed_bucket_gives_nothing_until_its_time(rate: float, burst: float, wanted: int, pause: float) -> None:
    bucket = Bucket.full(rate, burst, 0.0)
    bucket.close(0.0, pause)
    assert bucket.take(pause * 0.999, wanted) == 0
    assert bucket.wait(0.0) >= pause
    assert bucket.usable_within(0.0, pause) == 0
    assert bucket.take(pause + 1 / rate, 1) == 1


@given(st.floats(1, 100), st.floats(2, 1_000))
def test_after_a_pause_there_is_no_stored_up_burst(rate: float, burst: float) -> None:
    bucket = Bucket.full(rate, burst, 0.0)
    bucket.close(0.0, 1e-9)
    assert bucket.take(1e-9, 1_000) <= 1


@given(st.floats(1, 100), st.floats(2, 1_000), st.floats(0.001, 1_000), st.floats(0, 1_000), st.integers(1, 100))
def test_nor_is_there_any_of_the_time_before_a_pause_or_in_it(
    rate: float, burst: float, pause: float, before: float, wanted: int
) -> None:
    bucket = Bucket.full(rate, burst, 0.0)
    bucket.take(0.0, int(burst))
    bucket.close(before, pause)
    opens = before + pause
    wanted = min(wanted, int(bucket.burst))
    waits = bucket.wait(before, wanted)
    assert wanted > 1 or waits <= max(pause, 1 / rate) + ROUNDING
    assert bucket.take(opens, 1_000) <= 1
    assert bucket.take(opens + 1 / rate, 1_000) <= 2
    again = Bucket.full(rate, burst, 0.0)
    again.take(0.0, int(burst))
    again.close(before, pause)
    assert again.take((before + waits) * (1 + 1e-12) + 1e-9, wanted) == wanted


@given(st.floats(0.001, 100), st.floats(0.001, 100))
def test_of_two_pauses_the_longer_counts(first: float, second: float) -> None:
    bucket = Bucket.full(10.0, 0.0, 0.0)
    bucket.close(0.0, first)
    bucket.close(0.0, second)
    assert bucket.take(max(first, second) * 0.999, 1) == 0


@given(st.integers(1, 10_000), st.floats(0, 1_000))
def test_without_a_rate_there_is_no_limit_but_a_pause(wanted: int, now: float) -> None:
    bucket = Bucket.full(0.0, 0.0, 0.0)
    assert bucket.take(now, wanted) == wanted
    assert bucket.usable_within(now, 1.0) == float("inf")
    bucket.close(now, 5.0)
    assert bucket.wait(now) >= 4.9
    assert bucket.take(now + 4.9, wanted) == 0
    assert bucket.take(now + 5.1, wanted) == wanted


@unhurried
@given(rates, bursts, gaps)
def test_returned_tokens_can_be_taken_once(rate: float, burst: float, steps: list[tuple[float, int]]) -> None:
    bucket = _used(rate, burst, steps)
    now = bucket.filled_at
    level = bucket.level
    taken = bucket.take(now, 3)
    bucket.give_back(taken)
    assert abs(bucket.level - level) < ROUNDING
    bucket.give_back(1_000_000)
    assert bucket.level <= bucket.burst


@given(rates, bursts, rates, bursts)
def test_another_rate_gives_no_more_than_its_own_burst(rate: float, burst: float, rate2: float, burst2: float) -> None:
    bucket = Bucket.full(rate, burst, 0.0)
    bucket.tune(0.0, rate2, burst2)
    assert bucket.take(0.0, 10_000_000) <= bucket.burst + ROUNDING


def test_time_that_is_over_counts_at_the_rate_that_was() -> None:
    bucket = Bucket.full(1.0, 100.0, 0.0)
    assert bucket.take(0.0, 100) == 100
    bucket.tune(10.0, 100.0, 100.0)
    assert bucket.take(10.0, 1_000) == 10


def test_for_more_than_it_holds_one_waits_until_it_is_full() -> None:
    bucket = Bucket.full(10.0, 5.0, 0.0)
    assert bucket.take(0.0, 5) == 5
    assert bucket.wait(0.0, 100) == 0.5


@given(rates)
def test_a_limit_that_appears_begins_with_its_burst(rate: float) -> None:
    bucket = Bucket.full(0.0, 0.0, 0.0)
    bucket.take(0.0, 1_000_000)
    bucket.tune(10.0, rate, 0.0)
    assert bucket.take(10.0, 1) == 1


def test_a_clock_that_stands_still_or_goes_back_makes_no_tokens() -> None:
    bucket = Bucket.full(10.0, 5.0, 100.0)
    assert [bucket.take(now, 5) for now in (100.0, 100.0, 50.0)] == [5, 0, 0]
    assert bucket.take(100.1, 5) == 1


def _used(rate: float, burst: float, steps: list[tuple[float, int]]) -> Bucket:
    bucket = Bucket.full(rate, burst, 0.0)
    now = 0.0
    for gap, wanted in steps:
        now += gap
        bucket.take(now, wanted)
    return bucket
