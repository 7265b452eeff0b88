"""Times and durations: what people write, and what they must not leave open."""

from string import digits

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.base.values.durations import duration, format_duration, has_months, moment


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("PT2H30M", 9_000),
        ("P3D", 259_200),
        ("P1DT12H", 129_600),
        ("P2W", 1_209_600),
        ("PT0.5S", 0.5),
        ("PT0S", 0),
        ("2h30m", 9_000),
        ("1d 12h", 129_600),
        ("500ms", 0.5),
        ("7m", 420),
        ("1.5h", 5_400),
        *(
            (text, None)
            for text in ("", "5", "P", "PT", "P1DT", "1m30", "30m2h", "1m1m", "-P1D", "soon", "2H", "P1Y", "१s")
        ),
    ],
)
def test_a_duration_is_iso_8601_or_as_one_says_it(text: str, seconds: float | None) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "has"), [("P1Y", True), ("P1M", True), ("P1MT5M", True), ("PT1M", False), ("P1D", False)]
)
def test_months_are_told_from_minutes(text: str, has: bool) -> None:
    assert has_months(text) is has


@given(st.integers(0, 10**10))
def test_formatted_durations_are_read_back(milliseconds: int) -> None:
    assert duration(format_duration(milliseconds / 1_000)) == pytest.approx(milliseconds / 1_000)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2030-01-31T12:00:00Z", 1_896_091_200),
        ("2030-01-31 14:00:00.25+02:00", 1_896_091_200.25),
        ("2030-01-31t12:00:00.123456789z", 1_896_091_200.123456),
        *((text, None) for text in ("", "2030-01-31", "2030-01-31T12:00:00", "2030-02-31T12:00:00Z", "12:00", "now")),
    ],
)
def test_a_moment_has_its_zone(text: str, seconds: float | None) -> None:
    assert moment(text) == seconds


# A moment has fourteen digits. Hypothesis tries texts that it finds in the sources as well, and some are moments.
@given(st.text().filter(lambda text: sum(letter in digits for letter in text) < len("YYYYMMDDhhmmss")))
def test_garbage_is_not_a_time(text: str) -> None:
    duration(text)
    has_months(text)
    assert moment(text) is None
