"""Counts in sentences."""

import pytest

from dispatcher.base.values.counts import counted


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((1, "step"), "1 step"),
        ((0, "step"), "0 steps"),
        ((2_000, "step"), "2,000 steps"),
        ((1, "delivery", "deliveries"), "1 delivery"),
        ((3, "delivery", "deliveries"), "3 deliveries"),
    ],
)
def test_a_count_agrees_with_its_noun(given: tuple[int, str], words: str) -> None:
    assert counted(*given) == words
