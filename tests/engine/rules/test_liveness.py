"""Liveness: our own pause makes no instance stale, and silence while we watch does."""

from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.engine.rules.liveness import Watch

GAP_MAX = 3.0
LEASE = 10.0
pauses = st.lists(st.floats(0.01, 10_000), min_size=1, max_size=50)


@given(pauses)
def test_an_instance_that_beats_between_two_checks_is_never_stale(gaps: list[float]) -> None:
    watch = Watch(GAP_MAX)
    now = 0.0
    for beat, gap in enumerate(gaps):
        now += gap
        assert watch.stale(now, {1: (beat, LEASE)}) == []


@settings(deadline=None)
@given(pauses)
def test_our_own_pauses_make_no_instance_stale(gaps: list[float]) -> None:
    """However long we were stopped, it takes as many looks as fit the lease before silence means death."""
    watch = Watch(GAP_MAX)
    watch.stale(0.0, {1: (7, LEASE)})
    now = 0.0
    for looks, gap in enumerate(gaps, start=1):
        now += gap
        if watch.stale(now, {1: (7, LEASE)}):
            assert looks * GAP_MAX >= LEASE
            assert now >= LEASE
            return


def test_silence_for_the_lease_is_death() -> None:
    watch = Watch(GAP_MAX)
    looks = [watch.stale(now, {1: (7, LEASE)}) for now in (0.0, 2.0, 4.0, 6.0, 8.0, 10.0)]
    assert looks == [[], [], [], [], [], [1]]


def test_one_beat_takes_the_silence_back() -> None:
    watch = Watch(GAP_MAX)
    for now in (0.0, 2.0, 4.0, 6.0, 8.0):
        assert watch.stale(now, {1: (7, LEASE)}) == []
    assert watch.stale(9.0, {1: (8, LEASE)}) == []
    assert watch.stale(11.0, {1: (8, LEASE)}) == []


def test_each_is_judged_by_its_own_lease() -> None:
    watch = Watch(GAP_MAX)
    for now in (0.0, 2.0, 4.0):
        watch.stale(now, {1: (7, 6.0), 2: (7, 60.0)})
    assert watch.stale(6.0, {1: (7, 6.0), 2: (7, 60.0)}) == [1]


def test_a_new_instance_has_its_whole_lease() -> None:
    watch = Watch(GAP_MAX)
    for now in (0.0, 2.0, 4.0, 6.0, 8.0):
        watch.stale(now, {1: (1, LEASE)})
    assert watch.stale(10.0, {1: (1, LEASE), 2: (0, 0.5)}) == [1]


def test_an_instance_that_returns_is_new() -> None:
    watch = Watch(GAP_MAX)
    for now in (0.0, 2.0, 4.0, 6.0, 8.0):
        watch.stale(now, {1: (1, LEASE)})
    watch.stale(10.0, {})
    assert watch.stale(12.0, {1: (1, LEASE)}) == []


def test_a_counter_that_went_back_is_a_sign_of_life_too() -> None:
    watch = Watch(GAP_MAX)
    for now, beat in ((0.0, 9), (2.0, 9), (4.0, 9), (6.0, 9), (8.0, 3)):
        assert watch.stale(now, {1: (beat, LEASE)}) == []
    assert watch.stale(10.0, {1: (3, LEASE)}) == []
