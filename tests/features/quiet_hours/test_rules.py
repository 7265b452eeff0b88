"""Quiet hours as pure rules: whose hours, over which changes of clocks, and what becomes of a message."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.base.values.addresses import Address
from dispatcher.features.quiet_hours.rules import (
    DAY_MINUTES,
    RESEND_MARGIN,
    Hours,
    Move,
    Period,
    Skip,
    Span,
    decide,
    never_opens,
    span,
)
from dispatcher.features.quiet_hours.zones import phone_zone, zone_for

BERLIN, NEW_YORK = ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York")
NIGHT = Hours(quiet=(Period(21 * 60, 8 * 60),))
ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Tokyo")


def _at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def _minutes(text: str) -> int:
    hours, minutes = text.split(":")
    return 60 * int(hours) + int(minutes)


# Clocks change at 01:00 UTC on 2030-03-31 and 2030-10-27 in Berlin, at 07:00 on 2030-03-10 and 06:00 on 2030-11-03 in
# New York, and by half an hour at 15:30 on 2030-10-05 and 15:00 on 2030-04-06 on Lord Howe.
@pytest.mark.parametrize(
    ("zone", "quiet", "at", "until"),
    [
        # Days without a change.
        ("Europe/Berlin", "21:00-08:00", "2030-01-07 23:00", "2030-01-08 07:00"),
        ("America/New_York", "21:00-08:00", "2030-01-07 23:00", None),
        ("America/New_York", "21:00-08:00", "2030-01-08 02:00", "2030-01-08 13:00"),
        ("Asia/Tokyo", "21:00-08:00", "2030-03-31 12:00", "2030-03-31 23:00"),
        ("Australia/Lord_Howe", "21:00-08:00", "2030-06-01 12:00", "2030-06-01 21:30"),
        # Over a change: on the wall.
        ("Europe/Berlin", "21:00-08:00", "2030-03-30 21:00", "2030-03-31 06:00"),
        ("Europe/Berlin", "21:00-08:00", "2030-10-26 21:00", "2030-10-27 07:00"),
        ("America/New_York", "21:00-08:00", "2030-03-10 04:00", "2030-03-10 12:00"),
        ("America/New_York", "21:00-08:00", "2030-11-03 03:00", "2030-11-03 13:00"),
        ("Australia/Lord_Howe", "21:00-08:00", "2030-10-05 13:00", "2030-10-05 21:00"),
        ("Australia/Lord_Howe", "21:00-08:00", "2030-04-06 13:00", "2030-04-06 21:30"),
        # They end in the skipped hour: when it has been skipped.
        ("Europe/Berlin", "21:00-02:30", "2030-03-30 23:00", "2030-03-31 01:00"),
        ("America/New_York", "21:00-02:30", "2030-03-10 05:00", "2030-03-10 07:00"),
        ("Australia/Lord_Howe", "21:00-02:15", "2030-10-05 14:00", "2030-10-05 15:30"),
        # They end in the doubled hour: the second time.
        ("Europe/Berlin", "21:00-02:30", "2030-10-27 00:00", "2030-10-27 01:30"),
        ("Europe/Berlin", "21:00-02:30", "2030-10-27 00:45", "2030-10-27 01:30"),
        ("America/New_York", "21:00-01:30", "2030-11-03 04:00", "2030-11-03 06:30"),
        ("Australia/Lord_Howe", "21:00-01:45", "2030-04-06 14:00", "2030-04-06 15:15"),
        # Wholly within the skipped hour there are none.
        ("Europe/Berlin", "02:00-03:00", "2030-03-31 00:59", None),
        ("Europe/Berlin", "02:00-03:00", "2030-03-31 01:00", None),
        # At the very ends.
        ("Europe/Berlin", "21:00-08:00", "2030-01-07 20:00", "2030-01-08 07:00"),
        ("Europe/Berlin", "21:00-08:00", "2030-01-08 07:00", None),
    ],
)
def test_quiet_hours_end_by_the_clocks_on_the_wall(zone: str, quiet: str, at: str, until: str | None) -> None:
    opens, closes = map(_minutes, quiet.split("-"))
    found = span(Hours(quiet=(Period(opens, closes),)), ZoneInfo(zone), _at(at))
    assert (found.is_open, None if found.is_open else found.until) == (until is None, until and _at(until))


def test_a_period_belongs_to_the_day_on_which_it_begins() -> None:
    weekend = Hours(quiet=(Period(21 * 60, 8 * 60, frozenset({4, 5})), Period(0, DAY_MINUTES, frozenset({5, 6}))))
    # A Friday evening, until Monday at midnight: what begins on Saturday night is inside Sunday.
    assert span(weekend, BERLIN, _at("2030-01-11 21:00")) == Span(is_open=False, until=_at("2030-01-13 23:00"))
    assert span(weekend, BERLIN, _at("2030-01-10 21:00")) == Span(is_open=True, until=_at("2030-01-11 20:00"))


def test_nothing_goes_outside_windows_and_inside_them_quiet_hours_hold() -> None:
    hours = Hours(quiet=(Period(12 * 60, 13 * 60),), windows=(Period(9 * 60, 18 * 60, frozenset({0, 1, 2, 3, 4})),))
    assert span(hours, BERLIN, _at("2030-01-11 10:00")) == Span(is_open=True, until=_at("2030-01-11 11:00"))
    assert span(hours, BERLIN, _at("2030-01-11 11:30")) == Span(is_open=False, until=_at("2030-01-11 12:00"))
    assert span(hours, BERLIN, _at("2030-01-11 17:00")) == Span(is_open=False, until=_at("2030-01-14 08:00"))


def test_a_window_that_falls_into_the_gap_opens_in_the_next_week() -> None:
    sundays = Hours(windows=(Period(2 * 60, 3 * 60, frozenset({6})),))
    assert span(sundays, BERLIN, _at("2030-03-30 12:00")).until == _at("2030-04-07 00:00")


def test_what_never_opens_is_known() -> None:
    whole = Period(0, DAY_MINUTES)
    monday = Period(9 * 60, 17 * 60, frozenset({0}))
    assert never_opens(Hours(quiet=(whole,)))
    assert never_opens(Hours(quiet=(Period(0, 720), Period(720, DAY_MINUTES))))
    assert never_opens(Hours(windows=(monday,), quiet=(Period(0, DAY_MINUTES, frozenset({0})),)))
    assert not never_opens(Hours(windows=(monday,)))
    assert not never_opens(Hours(quiet=(Period(1, 0),)))
    assert not never_opens(Hours(windows=(whole,)))


_periods = st.builds(
    Period,
    st.integers(0, DAY_MINUTES - 1),
    st.integers(0, DAY_MINUTES),
    st.frozensets(st.integers(0, 6), min_size=1),
).filter(lambda one: one.opens != one.closes)
_hours = st.builds(Hours, st.lists(_periods, max_size=3).map(tuple), st.lists(_periods, max_size=3).map(tuple))
_times = st.integers(int(_at("2030-01-01 00:00").timestamp()), int(_at("2031-01-01 00:00").timestamp()))


@given(_hours, st.sampled_from(ZONES), _times, st.floats(0, 1))
def test_what_holds_until_a_time_holds_until_then(hours: Hours, zone: str, at: int, share: float) -> None:
    start = datetime.fromtimestamp(at, UTC)
    found = span(hours, ZoneInfo(zone), start)
    assert found.until > start
    between = start + (found.until - start) * share
    if between < found.until:
        assert span(hours, ZoneInfo(zone), between).is_open == found.is_open
    if found.until - start < timedelta(days=1) or not found.is_open:
        assert never_opens(hours) or span(hours, ZoneInfo(zone), found.until).is_open != found.is_open


CLOSED = Span(is_open=False, until=_at("2030-01-08 07:00"))
SHOWN = "2030-01-08 08:00 Europe/Berlin"


def test_a_message_is_moved_unless_it_would_expire() -> None:
    moved = Move(CLOSED.until, f"quiet hours until {SHOWN}")
    assert decide(CLOSED, BERLIN, None, None) == moved
    assert decide(CLOSED, BERLIN, CLOSED.until + timedelta(seconds=1), None) == moved
    assert decide(CLOSED, BERLIN, CLOSED.until, None) == Skip(f"expired: its quiet hours last until {SHOWN}")


def test_a_message_is_not_moved_past_the_life_of_its_key() -> None:
    known_until = CLOSED.until + RESEND_MARGIN
    assert isinstance(decide(CLOSED, BERLIN, None, known_until), Move)
    assert decide(CLOSED, BERLIN, None, known_until - timedelta(seconds=1)) is None
    assert decide(CLOSED, BERLIN, CLOSED.until, known_until - timedelta(seconds=1)) is None
    assert isinstance(decide(CLOSED, BERLIN, CLOSED.until, known_until), Skip)


@pytest.mark.parametrize(
    ("number", "zone"),
    [
        ("+4917012345", "Europe/Berlin"),
        ("+819012345678", "Asia/Tokyo"),
        ("+12125550123", "America/New_York"),
        # Mobiles of countries with several zones, and numbers of no country.
        ("+61412345678", None),
        ("+79161234567", None),
        ("+0123", None),
        ("+", None),
    ],
)
def test_a_number_says_its_zone_only_where_there_is_one(number: str, zone: str | None) -> None:
    assert phone_zone(number) == zone


def test_a_zone_is_the_contacts_or_the_numbers_or_the_workspaces() -> None:
    phone, mail = Address("phone", "+4917012345"), Address("email", "ann@example.org")
    assert zone_for("America/New_York", phone, "Asia/Tokyo").key == "America/New_York"
    assert zone_for(None, phone, "Asia/Tokyo").key == "Europe/Berlin"
    assert zone_for("Nowhere/At_All", phone, "Asia/Tokyo").key == "Europe/Berlin"
    assert zone_for(None, Address("phone", "+80012345678"), "Asia/Tokyo").key == "Asia/Tokyo"
    assert zone_for(None, mail, "Asia/Tokyo").key == "Asia/Tokyo"
    assert zone_for(None, mail, "Nowhere/At_All").key == "UTC"
