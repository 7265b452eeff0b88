"""Cron expressions: what they take, and when they tick, above all where clocks are changed."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.base.errors import ScheduleRefused
from dispatcher.features.schedules.rules import ALIASES, EXPRESSION_MAX, Cron
from tests.support.examples import examples

# In 2026 Berlin's clocks skip 02:00 to 03:00 on 29 March, and show it twice on 25 October.
BERLIN = "Europe/Berlin"
SPRING = datetime(2026, 3, 29, tzinfo=UTC)
AUTUMN = datetime(2026, 10, 24, 22, tzinfo=UTC)
ZONES = (
    BERLIN,
    "UTC",
    "America/New_York",
    "America/Havana",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
)


def _ticks(expression: str, at: datetime, number: int, zone: str = BERLIN) -> list[str]:
    return [f"{tick:%d %H:%M}" for tick in islice(Cron(expression, zone).ticks(at), number)]


def _faults(expression: str, zone: str = "UTC") -> list[str]:
    with pytest.raises(ScheduleRefused) as refused:
        Cron(expression, zone)
    return [str(fault) for fault in refused.value.faults]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("30 9 * * *", ["01 09:30", "02 09:30", "03 09:30"]),
        ("*/20 8-9 * * *", ["01 08:00", "01 08:20", "01 08:40"]),
        ("0 0 1,15 * *", ["15 00:00", "01 00:00", "15 00:00"]),
        ("0 9 * * mon", ["06 09:00", "13 09:00", "20 09:00"]),
        ("0 9 * * MON-FRI", ["01 09:00", "02 09:00", "03 09:00"]),
        ("0 9 * * 7", ["05 09:00", "12 09:00", "19 09:00"]),
        ("0 9 * * FRI#2", ["10 09:00", "14 09:00", "11 09:00"]),
        ("0 9 * * 5L", ["31 09:00", "28 09:00", "25 09:00"]),
        ("0 9 L * *", ["31 09:00", "31 09:00", "30 09:00"]),
        ("0 9 1 JAN-mar/2 *", ["01 09:00", "01 09:00", "01 09:00"]),
        # Either of them, as cron has it, where neither is a star.
        ("0 9 13 * FRI", ["03 09:00", "10 09:00", "13 09:00"]),
        ("@daily", ["02 00:00", "03 00:00", "04 00:00"]),
        (" @Hourly ", ["01 01:00", "01 02:00", "01 03:00"]),
    ],
)
def test_an_expression_ticks_at_its_times(expression: str, expected: Sequence[str]) -> None:
    assert _ticks(expression, datetime(2026, 7, 1, tzinfo=UTC), 3, "UTC") == expected


@pytest.mark.parametrize("alias", ALIASES)
def test_every_alias_is_what_it_stands_for(alias: str) -> None:
    at = datetime(2026, 7, 1, tzinfo=UTC)
    assert _ticks(alias, at, 5) == _ticks(ALIASES[alias], at, 5)


@pytest.mark.parametrize("zone", [BERLIN, "America/New_York", "Asia/Kathmandu"])
def test_it_goes_by_the_clocks_of_its_zone(zone: str) -> None:
    cron = Cron("30 9 * * *", zone)
    shown = {f"{cron.local(tick):%H:%M}" for tick in islice(cron.ticks(SPRING - timedelta(days=40)), 366)}
    assert shown == {"09:30"}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # At 01:00 UTC clocks jump from 02:00 to 03:00: what they skip comes at 03:00, once.
        ("30 2 * * *", ["29 01:00", "30 00:30"]),
        ("*/15 2 * * *", ["29 01:00", "30 00:00"]),
        ("30 2,3 * * *", ["29 01:00", "29 01:30", "30 00:30"]),
        ("30 */2 * * *", ["29 01:00", "29 02:30"]),
        ("0 2,3 * * *", ["29 01:00", "30 00:00"]),
        ("30 * * * *", ["29 00:30", "29 01:30", "29 02:30"]),
    ],
)
def test_a_time_that_clocks_skip_comes_when_they_have_skipped_it(expression: str, expected: Sequence[str]) -> None:
    assert _ticks(expression, SPRING, len(expected)) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # 02:30 is at 00:30 UTC and again at 01:30.
        ("30 2 * * *", ["25 00:30", "26 01:30"]),
        ("*/30 2 * * *", ["25 00:00", "25 00:30", "26 01:00"]),
        ("30 0-23/2 * * *", ["24 22:30", "25 00:30", "25 03:30"]),
        ("30 2,3 * * *", ["25 00:30", "25 02:30"]),
        # Every hour is every hour that passes, however it is written.
        ("30 * * * *", ["24 22:30", "24 23:30", "25 00:30", "25 01:30", "25 02:30"]),
        ("30 0-23 * * *", ["24 22:30", "24 23:30", "25 00:30", "25 01:30", "25 02:30"]),
    ],
)
def test_a_time_that_clocks_show_twice_comes_once(expression: str, expected: Sequence[str]) -> None:
    assert _ticks(expression, AUTUMN, len(expected)) == expected


def test_asked_in_the_second_of_two_hours_it_does_not_go_back() -> None:
    cron = Cron("30 2 * * *", BERLIN)
    assert cron.after(datetime(2026, 10, 25, 1, 10, tzinfo=UTC)) == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("", "has 0 fields, and needs five"),
        ("* * * *", "has 4 fields"),
        ("0 0 9 * * 1", "has 6 fields"),
        ("60 * * * *", "the minute, 60,"),
        ("* 24 * * *", "the hour, 24,"),
        ("* * 0 * *", "the day of the month, 0,"),
        ("* * * 13 *", "the month, 13,"),
        ("* * * * 8", "the day of the week, 8,"),
        ("* * * * FRI-MON", "the day of the week, FRI-MON,"),
        ("*/0 * * * *", "the minute, */0,"),
        ("5-1 * * * *", "the minute, 5-1,"),
        ("\u0661 * * * *", "the minute"),
        ("@reboot", "is not an alias: use @yearly"),
        ("@every 5m", "is not an alias: use @yearly"),
        ("0 0 30 2 *", "no such day"),
        ("0 0 31 4,6 *", "no such day"),
        ("* * */20 * 1L", "no such day"),
        ("*" * (EXPRESSION_MAX + 1), "is longer than"),
    ],
)
def test_invalid_cron_expressions_are_refused_with_their_field(expression: str, words: str) -> None:
    (fault,) = _faults(expression)
    assert fault.startswith("$.cron: ")
    assert words in fault


def test_all_faults_are_reported_at_once_with_their_paths() -> None:
    assert len(_faults("61 25 0 foo 9", "Mars/Base")) == 6


@pytest.mark.parametrize(
    "zone", ["", "Mars/Base", "Europe", "../etc/passwd", "localtime", "/UTC", "x" * 1_000, "U\0TC"]
)
def test_an_unknown_time_zone_is_refused(zone: str) -> None:
    assert _faults("@daily", zone) == ["$.time_zone: there is no such time zone; write one like Europe/Berlin, or UTC"]


def test_a_zone_is_written_as_it_is_everywhere() -> None:
    # A file system that takes both would let a schedule be saved that another machine cannot read.
    assert _faults("@daily", "europe/berlin") == ["$.time_zone: is written Europe/Berlin"]


@given(st.text(max_size=40) | st.from_regex(r"[0-9*/,#L-]{1,6}( [0-9*/,#LWA-Z-]{1,6}){4}", fullmatch=True))
def test_whatever_is_written_is_taken_or_refused(expression: str) -> None:
    try:
        cron = Cron(expression, "UTC")
    except ScheduleRefused:
        return
    assert cron.after(SPRING) is not None


def _field(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    span = st.tuples(number, number).map(lambda two: f"{min(two)}-{max(two)}")
    step = st.integers(2, 12).map(lambda by: f"*/{by}")
    some = st.lists(number.map(str), min_size=1, max_size=3).map(",".join)
    return st.just("*") | span | step | some


_EXPRESSIONS = st.tuples(_field(0, 59), _field(0, 23), _field(1, 28), _field(1, 12), _field(0, 7)).map(" ".join)
_MOMENTS = st.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC))
# Clocks are changed within a day of these.
_CHANGES = st.sampled_from(
    [
        SPRING,
        AUTUMN,
        *(datetime(2026, *day, tzinfo=UTC) for day in ((2, 15), (3, 8), (3, 22), (4, 4), (10, 3), (11, 1))),
    ]
).flatmap(lambda day: st.timedeltas(timedelta(days=-1), timedelta(days=2)).map(lambda more: day + more))


@settings(max_examples=examples(80, 500), deadline=None)
@given(_EXPRESSIONS, st.sampled_from(ZONES), _MOMENTS | _CHANGES)
def test_the_next_tick_is_always_later_and_the_same_from_wherever_one_asks(
    expression: str, zone: str, at: datetime
) -> None:
    cron = Cron(expression, zone)
    ticks = list(islice(cron.ticks(at), 4))
    assert len(ticks) == 4
    last = at
    for tick in ticks:
        assert tick > last
        assert cron.after(last) == tick
        assert cron.after(last + (tick - last) / 2) == tick
        assert cron.after(tick - timedelta(microseconds=1)) == tick
        last = tick


@settings(max_examples=examples(80, 300), deadline=None)
@given(
    _EXPRESSIONS,
    st.sampled_from(ZONES),
    _MOMENTS | _CHANGES,
    st.integers(0, 30),
    st.timedeltas(timedelta(0), timedelta(days=1)),
)
def test_the_latest_tick_is_the_last_that_has_come(
    expression: str, zone: str, at: datetime, number: int, more: timedelta
) -> None:
    cron = Cron(expression, zone)
    ticks = list(islice(cron.ticks(at), number + 2))
    now = min(ticks[number] + more, ticks[number + 1] - timedelta(microseconds=1))
    assert cron.latest(ticks[0], now) == ticks[number]
    assert cron.count(ticks[0], ticks[number], 1_000) == number
    assert cron.count(ticks[0], ticks[number], 5) == min(number, 5)


def test_a_year_of_minutes_is_not_counted_to_its_end() -> None:
    cron, first = Cron("* * * * *", BERLIN), datetime(2025, 1, 1, tzinfo=UTC)
    now = first + timedelta(days=365, seconds=59)
    assert cron.latest(first, now) == first + timedelta(days=365)
    assert cron.count(first, now, 1_000) == 1_000
