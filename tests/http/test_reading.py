"""Reading requests: every fault with its path, nothing that stands twice, and no more depth than there is room for."""

import json
import re
from contextlib import suppress
from datetime import datetime
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from dispatcher.base.errors import HINTS_MAX, Fault
from dispatcher.http import reading
from dispatcher.http.problems import FAULTS_SHOWN_MAX, Problem, faulty


class Inner(Struct, forbid_unknown_fields=True):
    """Something inside."""

    size: Annotated[int, Meta(ge=1, le=9)]


class Outer(Struct, forbid_unknown_fields=True):
    """Something with something inside."""

    name: str
    inner: list[Inner] = []
    limit: Annotated[int, Meta(ge=1)] = 1


class Maybe(Struct, forbid_unknown_fields=True):
    """Something that need not be there."""

    name: str | None = None
    size: int | None = None


class Dated(Struct, forbid_unknown_fields=True):
    """Something with a time, and with so many names."""

    at: Annotated[datetime, Meta(tz=True)] | None = None
    names: Annotated[list[str], Meta(min_length=1, max_length=2)] | None = None
    more: dict[str, str] | None = None
    word: str | None = None
    sizes: Annotated[dict[Annotated[str, Meta(max_length=3)], int], Meta(min_length=1, max_length=2)] | None = None


def _refused(body: bytes) -> dict[str, str]:
    with pytest.raises(Problem) as caught:
        reading.read(body, Outer)
    return {fault.path: fault.message for fault in caught.value.faults}


def test_a_sound_body_becomes_its_model() -> None:
    assert reading.read(b'{"name": "a", "inner": [{"size": 2}]}', Outer) == Outer("a", [Inner(2)])


def test_every_fault_has_its_path() -> None:
    faults = _refused(b'{"inner": [{"size": 0}, {"sise": 1}, 3], "nmae": "x", "limit": "1", "a b": 1}')
    assert set(faults) == {
        "$.name",
        "$.inner[0].size",
        "$.inner[1].size",
        "$.inner[1].sise",
        "$.inner[2]",
        "$.nmae",
        "$.limit",
        '$["a b"]',
    }
    assert faults["$.nmae"] == 'unknown field; did you mean "name"?'
    assert faults["$.name"] == "is required"


def test_a_name_that_stands_twice_is_refused_wherever_it_does() -> None:
    assert _refused(b'{"name": "a", "inner": [{"size": 1, "size": 2}], "name": "b"}') == {
        "$.name": "stands twice",
        "$.inner[0].size": "stands twice",
    }


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"[1]", "expected an object"),
        (b"null", "expected an object"),
        (b'{"name": NaN}', "is not a number of JSON"),
        (b'{"name": "\xff"}', "not UTF-8"),
        (b'{"name": "a"} {}', "is not JSON"),
        (b"1" * 5_000, "is not JSON"),
    ],
)
def test_invalid_json_objects_are_refused_with_words(body: bytes, words: str) -> None:
    assert words in _refused(body)["$"]


@pytest.mark.parametrize("escape", [r"\u0000", r"\ud800", r"\uDFFF"])
def test_texts_that_cannot_be_stored_are_refused(escape: str) -> None:
    assert list(_refused(f'{{"name": "a{escape}b"}}'.encode())) == ["$.name"]


@pytest.mark.parametrize(
    ("body", "path", "words"),
    [
        (b'{"names": []}', "$.names", "has 0 items, under 1"),
        (b'{"names": ["a", "b", "c"]}', "$.names", "has 3 items, over 2"),
        (b'{"sizes": {}}', "$.sizes", "has 0 fields, under 1"),
        (b'{"sizes": {"a": 1, "b": 2, "c": 3}}', "$.sizes", "has 3 fields, over 2"),
        (b'{"sizes": {"wide": 1}}', "$.sizes.wide", "expected `str` of length <= 3"),
        (rb'{"names": ["a", "\u0000"]}', "$.names[1]", "has a NUL character, which Postgres cannot keep"),
        (rb'{"more": {"\u0000": "a"}}', '$.more["\\u0000"]', "has a NUL character, which Postgres cannot keep"),
        (b'{"at": "9999-12-31T23:59:59-14:00"}', "$.at", "is out of range"),
    ],
)
def test_excess_or_unstorable_values_are_refused_with_their_path(body: bytes, path: str, words: str) -> None:
    with pytest.raises(Problem) as caught:
        reading.read(body, Dated)
    assert [(fault.path, fault.message) for fault in caught.value.faults] == [(path, words)]


@pytest.mark.parametrize(("name", "text"), [("at", "0"), ("at", "9999-12-31T23:59:59-14:00"), ("word", "a\0")])
def test_a_parameter_that_is_no_time_or_cannot_be_kept_is_refused(name: str, text: str) -> None:
    with pytest.raises(Problem) as caught:
        reading.read_query([(name, text)], Dated)
    assert [fault.path for fault in caught.value.faults] == [f"query.{name}"]


def test_a_whole_pair_is_kept() -> None:
    assert reading.read(rb'{"name": "\ud83d\ude00"}', Outer).name == "\U0001f600"


@pytest.mark.parametrize(
    ("bomb", "words"),
    [
        (b"[" * 100_000, "nested"),
        (b'{"a":' * 100_000, "nested"),
        (b"[" * 200 + b"]" * 200, "nested"),
        (b'[{"a":' * 90, "nested"),
        (b"[" * 1_000_000, "values"),
        (b"[" + b"{}," * 300_000 + b"{}]", "values"),
        (b'{"a":1,' * 150_000, "values"),
        (b"0," * 300_000, "values"),
    ],
)
def test_a_bomb_is_refused_before_it_is_read(bomb: bytes, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: object, **__: object) -> None:
        raise AssertionError("it was read")

    monkeypatch.setattr(json, "loads", read)
    assert words in _refused(bomb)["$"]


def _deep(value: object) -> int:
    match value:
        case list():
            return 1 + max(map(_deep, value), default=0)
        case dict():
            return 1 + max(map(_deep, value.values()), default=0)
        case _:
            return 0


@given(st.recursive(st.none() | st.text() | st.integers(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)))
def test_depth_is_that_of_what_is_read(value: object) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
        assert reading.depth(reading.signs(text.encode("utf-8", "replace"))) == _deep(value)


def _count(value: object) -> int:
    match value:
        case list():
            return 1 + sum(map(_count, value))
        case dict():
            return 1 + sum(1 + _count(one) for one in value.values())
        case _:
            return 1


@given(st.recursive(st.none() | st.text() | st.integers(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)))
def test_never_are_there_more_values_than_were_counted(value: object) -> None:
    assert reading.values(reading.signs(json.dumps(value).encode())) >= _count(value)


@given(st.binary(max_size=200))
def test_no_bytes_at_all_make_it_fail_otherwise(body: bytes) -> None:
    with suppress(Problem):
        reading.read(body, Outer)


def test_parameters_are_read_as_what_they_are() -> None:
    assert reading.read_query([("name", "a"), ("limit", "12")], Outer) == Outer("a", limit=12)
    with pytest.raises(Problem) as caught:
        reading.read_query([("name", "a"), ("name", "b"), ("limit", "x"), ("nane", "c")], Outer)
    assert {fault.path for fault in caught.value.faults} == {"query.name", "query.limit", "query.nane"}


def test_a_null_is_not_a_parameter() -> None:
    with pytest.raises(Problem) as caught:
        reading.read_query([("name", "null"), ("size", "null")], Maybe)
    assert [fault.path for fault in caught.value.faults] == ["query.size"]
    assert reading.read_query([("name", "null")], Maybe) == Maybe("null")


def test_more_parameters_than_any_list_takes_are_not_looked_at() -> None:
    with pytest.raises(Problem) as caught:
        reading.read_query([("a b", "1")] * 20_000, Outer)
    assert [str(fault) for fault in caught.value.faults] == ["query: has 20000 parameters, over 50"]
    with pytest.raises(Problem) as caught:
        reading.read_query([("a b", "1")] * 2, Outer)
    assert 'query["a b"]' in [fault.path for fault in caught.value.faults]


def test_of_many_names_that_nobody_knows_the_first_are_told_what_they_may_mean() -> None:
    faults = _refused(json.dumps({"name": "a"} | {f"limit{number}": 1 for number in range(1_000)}).encode())
    assert len(faults) == 1_000
    assert sum("did you mean" in words for words in faults.values()) == HINTS_MAX


def test_a_thousand_faults_are_a_hundred_and_how_many_more() -> None:
    told = json.loads(faulty(Fault(f"$.f{number}", "is wrong") for number in range(1_000)).document("r"))
    assert len(told["faults"]) == FAULTS_SHOWN_MAX
    assert told["more_faults"] == 1_000 - FAULTS_SHOWN_MAX


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (rb'{"a": 1, "a": 1}', "$.a"),
        (rb'{"a": [{"b": ":{", "b": "}:"}]}', "$.a[0].b"),
        (rb'{"a\\": {"c": "\\\\", "c": "\":"}}', '$["a\\\\"].c'),
        (rb'{"\u0061": ":", "a": {}}', "$.a"),
    ],
)
def test_a_name_that_stands_twice_is_found_however_it_is_hidden(body: bytes, path: str) -> None:
    with pytest.raises(Problem) as refused:
        reading.tree(body)
    assert [(fault.path, fault.message) for fault in refused.value.faults] == [(path, "stands twice")]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=20,
    ),
    st.booleans(),
)
def test_the_fast_reader_agrees_with_the_library(value: object, escaped: bool) -> None:
    try:
        body = json.dumps(value, ensure_ascii=escaped).encode()
    except UnicodeEncodeError:
        return
    if b"\\u0000" in body or re.search(rb"\\u[dD][89a-fA-F]", body):
        return
    assert reading.tree(body) == json.loads(body)
