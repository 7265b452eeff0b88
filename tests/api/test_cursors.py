"""Cursors: each leads where it was made to lead, in its own list, and nothing else is one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.api.cursors import ID_MAX, behind, below, cursor
from dispatcher.api.endpoints import Endpoint
from dispatcher.api.interface import ENDPOINTS
from dispatcher.api.problems import Problem
from tests.api.caller import Caller


@given(st.integers(min_value=1, max_value=ID_MAX))
def test_a_cursor_leads_where_it_was_made_to_lead(last: int) -> None:
    assert below("runs", cursor("runs", last)) == last


@given(st.integers(min_value=1, max_value=ID_MAX), st.integers(min_value=1, max_value=ID_MAX))
def test_one_of_two_numbers_has_both(first: int, second: int) -> None:
    assert behind("held", cursor("held", first, second), 2) == [first, second]
    with pytest.raises(Problem):
        behind("held", cursor("held", first, second), 1)


def test_without_one_it_begins_at_the_end() -> None:
    assert below("runs", None) == ID_MAX


@given(st.text(max_size=60))
def test_nothing_else_is_one(text: str) -> None:
    with pytest.raises(Problem):
        below("runs", text)


def test_one_of_another_list_is_refused() -> None:
    with pytest.raises(Problem):
        below("runs", cursor("deliveries", 7))
    with pytest.raises(Problem):
        below("runs", cursor("runs", ID_MAX + 1))
    with pytest.raises(Problem):
        below("runs", cursor("runs", 7) + "=")


@pytest.mark.parametrize(
    "one",
    [one for one in ENDPOINTS if "cursor" in getattr(one.given, "__struct_fields__", ())],
    ids=lambda one: one.path,
)
async def test_one_of_a_sweep_is_refused_where_it_stands(one: Endpoint, admin: Caller) -> None:
    assert one.example is not None
    answer = admin.post(one.path, {**one.example, "cursor": cursor("deliveries", 7)})
    assert list(answer.faults) == ["$.cursor"]
