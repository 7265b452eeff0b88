"""Cursors: each leads where it was made to lead, in its own list, and nothing else is one."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.endpoints import ENDPOINTS
from dispatcher.http.cursors import ID_MAX, cursor, microseconds, moment, read_id, read_name, read_numbers, read_texts
from dispatcher.http.endpoints import Endpoint
from dispatcher.http.problems import Problem
from tests.support.caller import Caller


@given(st.integers(min_value=1, max_value=ID_MAX))
def test_a_cursor_leads_where_it_was_made_to_lead(last: int) -> None:
    assert read_id("runs", cursor("runs", last)) == last


@given(st.integers(min_value=1, max_value=ID_MAX), st.integers(min_value=1, max_value=ID_MAX))
def test_one_of_two_numbers_has_both(first: int, second: int) -> None:
    assert read_numbers("held", cursor("held", first, second), 2) == [first, second]
    with pytest.raises(Problem):
        read_numbers("held", cursor("held", first, second), 1)


def test_without_one_it_begins_at_the_end() -> None:
    assert read_id("runs", None) == ID_MAX


@given(st.text(max_size=60))
def test_nothing_else_is_one(text: str) -> None:
    with pytest.raises(Problem):
        read_id("runs", text)


def test_one_of_another_list_is_refused() -> None:
    with pytest.raises(Problem):
        read_id("runs", cursor("deliveries", 7))
    with pytest.raises(Problem):
        read_id("runs", cursor("runs", ID_MAX + 1))
    with pytest.raises(Problem):
        read_id("runs", cursor("runs", 7) + "=")


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1))
def test_one_of_a_name_leads_behind_it_in_its_own_list(name: str) -> None:
    assert read_name("objects", cursor("objects", name)) == name
    assert read_texts("objects", cursor("objects", name, name), 2) == (name, name)
    for wrong in (cursor("templates", name), cursor("objects", name + "\0"), cursor("objects", 7)):
        with pytest.raises(Problem):
            read_name("objects", wrong)
    with pytest.raises(Problem):
        read_name("objects", cursor("objects", name) + "=")
    for wrong in (cursor("objects", name), cursor("objects", name, "\0")):
        with pytest.raises(Problem):
            read_texts("objects", wrong, 2)


@given(st.datetimes(datetime(1970, 1, 2), timezones=st.just(UTC)))
def test_a_cursors_time_is_a_number_and_an_overflow_is_the_last(at: datetime) -> None:
    assert moment(microseconds(at)) == at
    assert moment(ID_MAX) >= at


@pytest.mark.parametrize(
    "one",
    [one for one in ENDPOINTS if "cursor" in getattr(one.given, "__struct_fields__", ())],
    ids=lambda one: one.path,
)
async def test_one_of_a_sweep_is_refused_where_it_stands(one: Endpoint, admin: Caller) -> None:
    assert one.example is not None
    answer = admin.post(one.path, {**one.example, "cursor": cursor("deliveries", 7)})
    assert list(answer.faults) == ["$.cursor"]
