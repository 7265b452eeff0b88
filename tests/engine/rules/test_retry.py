"""The policy after a verdict: the waits of OB-10, and an outcome for every verdict that there is."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from channels.contract import Accepted, NotCalled, Refused, RetryAfter, Throttled, Unknown, Verdict
from dispatcher.engine.rules.life import Again, Back, Failed, Held, Resend, Succeeded
from dispatcher.engine.rules.retry import decide, wait_seconds

MINUTE = 60.0
HOUR = 60 * MINUTE
HOLD = Resend()
RESEND = Resend("at_least_once")

HOLD = Resend()
RESEND = Resend(by="at_least_once")
attempts = st.integers(1, 100)


def test_the_waits_double_up_to_an_hour() -> None:
    waits = [wait_seconds(attempt, MINUTE, HOUR, 0.0) / MINUTE for attempt in range(1, 10)]
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]


@given(attempts, st.floats(0.001, 3_600), st.floats(0, 1))
def test_the_wait_is_never_over_the_cap_and_its_jitter(attempt: int, base: float, spread: float) -> None:
    wait = wait_seconds(attempt, base, HOUR, spread)
    assert min(base, HOUR) <= wait <= HOUR * (1 + spread) + 1e-6


@given(attempts, st.floats(0.001, 3_600))
def test_a_later_attempt_never_waits_less(attempt: int, base: float) -> None:
    assert wait_seconds(attempt + 1, base, HOUR, 0.0) >= wait_seconds(attempt, base, HOUR, 0.0)


@given(attempts, st.floats(0, 1))
def test_jitter_only_ever_adds(attempt: int, spread: float) -> None:
    plain = wait_seconds(attempt, MINUTE, HOUR, 0.0)
    assert plain <= wait_seconds(attempt, MINUTE, HOUR, spread) <= plain * (1 + spread) + 1e-6


@given(attempts, attempts, st.sampled_from([HOLD, RESEND]))
def test_a_transient_error_is_tried_again_until_the_attempts_are_used_up(
    attempt: int, max_attempts: int, resend: Resend
) -> None:
    outcome = decide(RetryAfter("busy"), attempt, max_attempts, 7.0, resend)
    if attempt < max_attempts:
        assert outcome == Again(7.0, "busy")
    else:
        assert isinstance(outcome, Failed)
        assert outcome.reason.startswith("exhausted")
        assert "busy" in outcome.reason


@given(attempts, attempts)
def test_a_refusal_is_never_tried_again(attempt: int, max_attempts: int) -> None:
    assert decide(Refused("recipient: unknown"), attempt, max_attempts, 7.0, RESEND) == Failed("recipient: unknown")


@given(attempts, attempts, st.sampled_from([HOLD, RESEND]))
def test_uncalled_and_throttled_deliveries_use_no_attempt(attempt: int, max_attempts: int, resend: Resend) -> None:
    assert decide(Throttled(30.0), attempt, max_attempts, 7.0, resend) == Back(30.0, "throttled", throttled=True)
    assert decide(NotCalled("late"), attempt, max_attempts, 7.0, resend) == Back(0.0, "late")


@given(attempts, attempts)
def test_an_unknown_outcome_is_held(attempt: int, max_attempts: int) -> None:
    assert isinstance(decide(Unknown("no answer"), attempt, max_attempts, 7.0, HOLD), Held)


@given(attempts, attempts)
def test_an_unknown_outcome_is_tried_again_only_where_that_was_allowed(attempt: int, max_attempts: int) -> None:
    outcome = decide(Unknown("no answer"), attempt, max_attempts, 7.0, RESEND)
    assert isinstance(outcome, Again if attempt < max_attempts else Held)


@given(attempts)
def test_an_unknown_outcome_is_never_a_failure(attempt: int) -> None:
    for resend in (HOLD, RESEND):
        assert not isinstance(decide(Unknown("no answer"), attempt, attempt, 7.0, resend), Failed)


def test_an_outcome_that_no_repeat_reveals_is_held_despite_retries() -> None:
    for resend in (HOLD, RESEND, Resend("key", 60.0)):
        assert decide(Unknown("another request", hold=True), 1, 5, 7.0, resend) == Held("unknown: another request")


@pytest.mark.parametrize("resend", [HOLD, RESEND])
def test_a_receiver_that_knows_its_keys_is_asked_again_by_key(resend: Resend) -> None:
    unknown, some = Unknown("no answer"), replace(resend, keyed_recipients=frozenset({"bill"}))
    assert decide(unknown, 1, 5, 7.0, some, "bill") == Again(7.0, "unknown: no answer", Resend("key", None))
    assert decide(unknown, 1, 5, 7.0, some, "ship") == decide(unknown, 1, 5, 7.0, some)
    assert decide(unknown, 5, 5, 7.0, some, "bill") == Held("unknown: no answer")
    assert decide(Unknown("no answer", hold=True), 1, 5, 7.0, some, "bill") == Held("unknown: no answer")


def test_a_receivers_key_promise_does_not_weaken_the_channels() -> None:
    channel = Resend("key", 60.0, frozenset({"bill"}))
    again = decide(Unknown("no answer"), 1, 5, 7.0, channel, "bill")
    assert again == Again(7.0, "unknown: no answer", channel)


def test_a_refusal_that_speaks_for_every_call_is_conclusive() -> None:
    for resend, by_key, conclusive in ((HOLD, False, False), (HOLD, True, True), (Resend("key", 60.0), False, True)):
        outcome = decide(Refused("no", by_key=by_key), 2, 5, 7.0, resend)
        assert outcome == Failed("no", conclusive=conclusive)


def test_a_result_keeps_the_providers_answer() -> None:
    assert decide(Accepted("m", {"id": 7}), 1, 5, 7.0, HOLD) == Succeeded("m", {"id": 7})


def test_the_wait_that_a_provider_requests_counts_where_it_has_one() -> None:
    assert decide(RetryAfter("busy", 90.0), 1, 5, 7.0, HOLD) == Again(90.0, "busy")
    assert decide(RetryAfter("busy", 0.0), 1, 5, 7.0, HOLD) == Again(0.0, "busy")
    assert decide(RetryAfter("busy", -5.0), 1, 5, 7.0, HOLD) == Again(0.0, "busy")


@pytest.mark.parametrize("requested", [1e9, 1e15, float("inf"), float("nan")])
def test_the_wait_that_a_provider_requests_has_a_bound(requested: float) -> None:
    """What a provider writes into Retry-After is foreign input; past some years Postgres cannot even store it."""
    day = 86_400.0
    again = decide(RetryAfter("busy", requested), 1, 5, 7.0, HOLD)
    throttled = decide(Throttled(requested), 1, 5, 7.0, HOLD)
    assert isinstance(again, Again)
    assert isinstance(throttled, Back)
    assert 0 <= again.delay_seconds <= day
    assert 0 <= throttled.delay_seconds <= day


def test_every_verdict_has_an_outcome() -> None:
    examples: list[Verdict] = [
        Accepted("m"),
        Refused("r"),
        RetryAfter("r"),
        Throttled(1.0),
        Unknown("p"),
        NotCalled("w"),
    ]
    assert {type(one) for one in examples} == set(get_args(Verdict))
    assert all(decide(one, 1, 5, 7.0, HOLD) for one in examples)
    assert decide(Accepted("m"), 9, 5, 7.0, HOLD) == Succeeded("m")


def test_a_refusal_that_names_the_provider_is_for_the_next_one_or_for_another_time() -> None:
    fault = Refused("options.key: is wrong", provider_fault=True)
    assert decide(fault, 5, 5, 7.0, HOLD, next_is_ready=True) == Again(0.0, fault.reason, passed=True)
    assert decide(fault, 1, 5, 7.0, HOLD, next_is_ready=False) == Again(7.0, fault.reason)
    assert decide(fault, 5, 5, 7.0, HOLD, next_is_ready=False) == Failed(f"exhausted: {fault.reason}")
    assert decide(fault, 1, 5, 7.0, HOLD) == Failed(fault.reason)


def test_a_provider_that_was_not_reached_costs_no_attempt_where_another_is_ready() -> None:
    unreached = RetryAfter("no connection", provider_fault=True)
    assert decide(unreached, 5, 5, 7.0, HOLD, next_is_ready=True) == Again(0.0, "no connection", passed=True)
    assert decide(unreached, 1, 5, 7.0, HOLD, next_is_ready=False) == Again(7.0, "no connection")
    assert decide(unreached, 1, 5, 7.0, HOLD) == Again(7.0, "no connection")
    assert decide(RetryAfter("busy"), 1, 5, 7.0, HOLD, next_is_ready=True) == Again(7.0, "busy")


def test_a_refusal_that_names_the_provider_proves_nothing_of_earlier_attempts() -> None:
    fault = Refused("options.key: is wrong", provider_fault=True)
    assert decide(fault, 2, 5, 7.0, Resend("key")) == Failed(fault.reason, conclusive=False)
    assert decide(Refused("content"), 2, 5, 7.0, Resend("key")) == Failed("content", conclusive=True)


@given(attempts, attempts, st.sampled_from([HOLD, RESEND, Resend("key", 5.0)]), st.booleans())
def test_an_unknown_outcome_is_never_passed_on(attempt: int, max_attempts: int, resend: Resend, ready: bool) -> None:
    outcome = decide(Unknown("no answer"), attempt, max_attempts, 7.0, resend, next_is_ready=ready)
    assert isinstance(outcome, Held) or (isinstance(outcome, Again) and outcome.resend and not outcome.passed)
