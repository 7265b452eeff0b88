"""The time that is left of a run, and its answers in words."""

import pytest

from dispatcher.features.campaigns.runs.rules import current_pace, seconds_left, sentence


@pytest.mark.parametrize(
    ("left", "pace", "rate", "stands", "seconds"),
    [
        (0, 0.0, None, True, 0.0),
        (100, 10.0, None, False, 10.0),
        (100, 10.0, None, True, None),
        (100, 0.0, None, False, None),
        (100, 0.0, 5.0, False, 20.0),
        (100, 50.0, 5.0, False, 20.0),
        (100, 2.0, 5.0, False, 50.0),
    ],
)
def test_the_time_that_is_left(left: int, pace: float, rate: float | None, stands: bool, seconds: float | None) -> None:
    assert seconds_left(left, pace, rate, stands=stands) == seconds


def test_a_pace_fades_without_results() -> None:
    assert current_pace(10.0, None) == 0.0
    assert current_pace(10.0, 0.5) == 10.0
    assert 3.0 < current_pace(10.0, 11.0) < 4.0


def test_answers_in_words() -> None:
    assert sentence("pause", 7, "done") == (True, "campaign run 7 is paused")
    assert sentence("resume", 7, "cancelled") == (False, "campaign run 7 was cancelled: too late")
