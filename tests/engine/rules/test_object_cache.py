"""The cache: what is carried is never over its bound, and what nobody carries gives way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.base.errors import TemplateError
from dispatcher.engine.rules.object_cache import OVERHEAD_BYTES, Name, ObjectCache, Stored, filled, named, names_objects

BYTES_MAX = 100 + 5 * OVERHEAD_BYTES


def name(text: str) -> Name:
    return ("t", "w", text)


steps = st.lists(
    st.tuples(st.integers(0, 5), st.frozensets(st.sampled_from("abcdefgh"), max_size=4), st.booleans()), max_size=60
)


@given(steps=steps, sizes=st.lists(st.integers(0, 60), min_size=8, max_size=8))
def test_it_holds_what_is_carried_and_never_more_than_its_bound(
    steps: list[tuple[int, frozenset[str], bool]], sizes: list[int]
) -> None:
    cache = ObjectCache(BYTES_MAX)
    size = {name(text): sizes[index] for index, text in enumerate("abcdefgh")}
    carried: dict[tuple[int, int], frozenset[Name]] = {}
    for number, texts, loads in steps:
        carrier, names = (number, 1), frozenset(map(name, texts))
        if carrier in carried:
            cache.release([carrier])
            del carried[carrier]
            continue
        needed = frozenset().union(names, *carried.values())
        fits = sum(size[one] + OVERHEAD_BYTES for one in needed) <= BYTES_MAX
        assert cache.carry(carrier, names, size) is fits
        if fits:
            carried[carrier] = names
            for one in names if loads else ():
                cache.put(one, Stored("a/b", b""))
        assert cache.bytes <= BYTES_MAX
    cache.release(carried)
    assert not cache.carried
    assert cache.carry((9, 9), frozenset(), size)


def test_the_most_recently_used_object_stays_longest() -> None:
    cache = ObjectCache(2 * (10 + OVERHEAD_BYTES))
    sizes = {name(text): 10 for text in "abc"}
    for number, text in enumerate("ab"):
        assert cache.carry((number, 1), frozenset([name(text)]), sizes)
        cache.put(name(text), Stored("a/b", text.encode()))
    cache.release([(1, 1), (0, 1)])
    assert cache.carry((2, 1), frozenset([name("c")]), sizes)
    assert cache.get(name("b")) is None
    assert cache.get(name("a")) == Stored("a/b", b"a")


def test_unloaded_objects_are_not_cached() -> None:
    cache = ObjectCache(BYTES_MAX)
    assert cache.carry((1, 1), frozenset([name("a")]), {name("a"): 10})
    cache.release([(1, 1)])
    assert cache.bytes == 0


OPTIONS = {
    "attachments": [{"object": "invoices/17.pdf"}, {"name": "a", "content": "YQ=="}],
    "inline": [{"cid": "logo", "object": "logo", "name": "l.png", "type": "image/png"}],
}


def test_options_are_filled_where_they_name_an_object() -> None:
    assert names_objects(OPTIONS)
    fields = named(OPTIONS, "t", "w")
    assert fields == {
        "options.attachments[0].object": name("invoices/17.pdf"),
        "options.inline[0].object": name("logo"),
    }
    assert filled(OPTIONS, {field: Stored("application/pdf", b"x") for field in fields}) == {
        "attachments": [
            {"name": "17.pdf", "type": "application/pdf", "content": b"x"},
            {"name": "a", "content": "YQ=="},
        ],
        "inline": [{"cid": "logo", "name": "l.png", "type": "image/png", "content": b"x"}],
    }


@pytest.mark.parametrize("options", [{}, {"attachments": 7}, {"inline": [7]}, {"attachments": [{"content": ""}]}])
def test_options_that_name_no_object_are_left_alone(options: dict[str, object]) -> None:
    assert not names_objects(options)
    assert named(options, "t", "w") == {}


@pytest.mark.parametrize("one", [{"object": 7}, {"object": ""}, {"object": "a b"}, {"object": "a", "content": ""}])
def test_a_faulty_name_is_refused(one: dict[str, object]) -> None:
    with pytest.raises(TemplateError, match=r"^options\.inline\[0\]\.object: "):
        named({"inline": [one]}, "t", "w")
