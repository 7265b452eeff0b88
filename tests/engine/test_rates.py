"""Rates and shares: what all replicas together may use is never over, and who is alone uses all of it."""

from itertools import pairwise

from dispatcher.config.settings import Channel, Retry
from dispatcher.engine.providers.terms import Terms
from dispatcher.engine.rules.life import Resend
from dispatcher.engine.rules.rates import Rates
from dispatcher.engine.rules.replica_shares import NEWCOMER_BEATS, STALE_BEATS, Shares
from tests.engine.stage import Script, claimed

BEAT = 2.0


class _One:
    """Something that carries a claimed delivery."""

    def __init__(self, number: int) -> None:
        self.item = claimed(number)


def test_a_single_instance_uses_the_whole_rate() -> None:
    shares = Shares(BEAT, 0.0)
    assert shares.current(0.0) == 0.0
    shares.see(0.1, 1)
    assert shares.current(0.1) == 1.0


def test_a_newcomer_waits_until_the_others_must_have_seen_it() -> None:
    shares = Shares(BEAT, 0.0)
    shares.see(0.0, 2)
    shares.see(NEWCOMER_BEATS * BEAT - 0.2, 2)
    assert shares.current(NEWCOMER_BEATS * BEAT - 0.1) == 0.0
    assert shares.current(NEWCOMER_BEATS * BEAT) == 0.5


def test_a_stale_view_grants_no_tokens() -> None:
    shares = Shares(BEAT, 0.0)
    shares.see(0.0, 1)
    assert shares.current(STALE_BEATS * BEAT) == 1.0
    assert shares.current(STALE_BEATS * BEAT + 0.01) == 0.0
    shares.see(10.0, 1)
    assert shares.current(10.0) == 1.0


def test_the_sum_of_the_shares_is_never_over() -> None:
    """Three join a second apart and see each other at each beat of their own; then they go again."""
    joins, leaves = [0.0, 1.0, 2.0], [40.0, 50.0, 60.0]
    everyone = [Shares(BEAT, joined) for joined in joins]
    for step in range(600):
        now = step / 10
        for one, joined, left in zip(everyone, joins, leaves, strict=True):
            if joined <= now < left and (step - int(joined * 10)) % int(BEAT * 10) == 0:
                one.see(now, sum(j <= now < e for j, e in zip(joins, leaves, strict=True)))
        alive = [one for one, j, e in zip(everyone, joins, leaves, strict=True) if j <= now < e]
        assert sum(one.current(now) for one in alive) <= 1.0 + 1e-9, now


def test_without_a_share_a_limited_channel_takes_nothing_and_claims_nothing() -> None:
    rates = Rates(0.0, 10.0, 0.0, 0.0, 0.0)
    rates.share(0.0, 0.0)
    assert (rates.take(0.0, 5), rates.claimable(0.0)) == (0, 0.0)
    assert rates.wait(0.0) > 0


def test_without_a_share_an_unlimited_channel_may_mark() -> None:
    rates = Rates(0.0, 0.0, 0.0, 0.0, 0.0)
    rates.share(0.0, 0.0)
    assert rates.take(0.0, 5) == 5


def test_a_share_is_a_part_of_the_rate() -> None:
    rates = Rates(0.0, 100.0, 10.0, 0.0, 0.0)
    rates.share(0.0, 0.25)
    taken = [rates.take(step / 100, 1_000) for step in range(1_001)]
    assert sum(taken) <= 0.25 * (100.0 * 10 + 10)
    assert sum(taken) >= 0.25 * 100.0 * 10 - 1


def test_no_second_has_more_than_rate_and_burst() -> None:
    rates = Rates(0.0, 50.0, 5.0, 0.0, 0.0)
    went = [step / 1_000 for step in range(5_000) for _ in range(rates.take(step / 1_000, 100))]
    assert all(later - earlier > 1 for earlier, later in zip(went, went[56:], strict=False))


def test_a_change_of_share_gives_no_tenant_a_token_that_it_has_used() -> None:
    rates = Rates(0.0, 0.0, 0.0, 1.0, 0.0)
    went = 0
    for step, share in enumerate((1.0, 0.5, 1.0, 0.0, 1.0)):
        rates.share(step / 10, share)
        went += len(rates.admit(step / 10, [_One(step)], {})[0])
    assert went == 1, "a tenant that may have one a second had more within half a second"


def test_waiting_deliveries_return_one_by_one() -> None:
    rates = Rates(0.0, 0.0, 0.0, 2.0, 0.0)
    admitted, late = rates.admit(0.0, [_One(number) for number in range(5)], {})
    waits = [wait for _, wait in late]
    assert len(admitted) == 1
    assert all(abs(later - earlier - 0.5) < 1e-6 for earlier, later in pairwise([0.0, *waits]))


def test_only_an_at_least_once_channel_may_send_an_unknown_attempt_again() -> None:
    terms = Terms(Script(), Channel(), Retry(), Rates(0.0, 0.0, 0.0, 0.0, 0.0), licence_seconds=5.0)
    assert terms.resend.by is None
    terms.settings = Channel(at_least_once=True)
    assert terms.resend.by == "at_least_once"


def test_a_key_is_used_again_as_long_as_the_call_would_reach_a_provider_that_knows_it() -> None:
    """A mark that comes in time is a call only after its licence and its time-out, at worst."""
    keyed = Script()
    terms = Terms(keyed, Channel(call_seconds_max=60.0), Retry(), Rates(0.0, 0.0, 0.0, 0.0, 0.0), licence_seconds=5.0)
    resends = {}
    for seconds in (65.0, 3_600.0, float("inf")):
        keyed.idempotency_key_seconds = seconds
        resends[seconds] = terms.resend
    assert resends == {65.0: Resend(), 3_600.0: Resend("key", 3_535.0), float("inf"): Resend("key", None)}
