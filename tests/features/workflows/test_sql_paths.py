"""A trigger's look for variables, against Liquid itself: what it finds is what strict rendering finds, and no more."""

import json
from typing import Any

import pytest
from liquid.exceptions import UndefinedError

from dispatcher.liquid.language import BoundedEnvironment
from dispatcher.liquid.sources import Sources, variables
from tests.support.scene import Connection

FINDS = """SELECT bool_and(dispatcher.has_path($1, dispatcher.path_steps(path))) FROM unnest($2::text[]) AS path"""

# Each reads its paths whatever stands there; what it makes of them does not matter.
TEMPLATES = (
    "{{ a }}",
    "{{ a.b }}",
    "{{ a.b.c }}",
    "{{ a['b'] }}",
    "{{ a['b c'] }}",
    "{{ a['b c'].d }}",
    "{{ a['x-y'].d }}",
    "{{ a['x.y'] }}",
    "{{ a['x]y'] }}",
    '{{ a["it\'s"] }}',
    "{{ a['say \"x\"'] }}",
    "{{ a[''] }}",
    "{{ ['a b'].c }}",
    "{{ x-y }}",
    "{{ ä.ö }}",
    "{{ a[0] }}",
    "{{ a[1].b }}",
    "{{ a[-1] }}",
    "{{ a[-2].b }}",
    "{{ a[0][0] }}",
    "{{ a.b[0].c }}",
    "{{ a.size }}",
    "{{ a.first }}",
    "{{ a.last }}",
    "{{ a.b.size }}",
    "{{ a.b.first }}",
    "{{ a.first.b }}",
    "{{ a.last.b.size }}",
    "{{ a.first.first }}",
    "{{ size }}",
    "{{ first.last }}",
    "{{ a.b }} {{ a.c }}",
)
INPUTS: tuple[Any, ...] = (
    {},
    {"a": None},
    {"a": ""},
    {"a": "text"},
    {"a": 0},
    {"a": True},
    {"a": 1.5},
    {"a": []},
    {"a": {}},
    {"a": [None]},
    {"a": [{"b": 1}, {"b": None}]},
    {"a": [[1], [2]]},
    {"a": [[], {"b": [1]}]},
    {"a": {"b": None, "c": 1}},
    {"a": {"b": {"c": {}}, "size": None}},
    {"a": {"b": [{"c": ""}], "first": 1, "last": None}},
    {"a": {"b": "text", "": 1}},
    {"a": {"b c": {"d": 1}, "x-y": {"d": None}, "x.y": 1, "x]y": 2, "it's": 3, 'say "x"': 4}},
    {"a b": {"c": 1}, "x-y": 1, "ä": {"ö": None}},
    {"size": 1, "first": [1, 2]},
)


def _renders(text: str, given: dict[str, Any]) -> bool:
    environment = BoundedEnvironment(autoescape=False, text_max=100_000)
    try:
        environment.from_string(text).render(given)
    except UndefinedError:
        return False
    return True


@pytest.mark.parametrize("text", TEMPLATES)
async def test_a_trigger_finds_what_rendering_finds(connection: Connection, text: str) -> None:
    paths = list(variables(Sources({"body": text})))
    found = {json.dumps(one): await connection.fetchval(FINDS, json.dumps(one), paths) for one in INPUTS}
    assert found == {json.dumps(one): _renders(text, one) for one in INPUTS}


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("a", ["a"]),
        ("a.b[0].c", ["a", "b", "0", "c"]),
        ("a['b c'].d", ["a", "b c", "d"]),
        # Which one it is, a variable says, and that is found by itself.
        ("prices[currency].net", ["prices"]),
        ("prices['a'][order.currency]", ["prices", "a"]),
        ("a.b[c[0]].d", ["a", "b"]),
    ],
)
async def test_a_path_has_the_steps_that_are_known_beforehand(
    connection: Connection, path: str, steps: list[str]
) -> None:
    assert await connection.fetchval("SELECT dispatcher.path_steps($1)", path) == steps


async def test_a_path_through_a_hundred_objects_is_found(connection: Connection) -> None:
    value: dict[str, Any] = {"end": None}
    for _ in range(99):
        value = {"a": value}
    path = ".".join(["a"] * 99 + ["end"])
    assert await connection.fetchval(FINDS, json.dumps(value), [path])
    assert not await connection.fetchval(FINDS, json.dumps(value), [path + ".more"])
