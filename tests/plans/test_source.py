"""The text of a definition: JSON and YAML are read alike, and what is not both is refused."""

import math

import pytest

from dispatcher.plans.definition.definition import compile_definition, read_definition
from dispatcher.plans.definition.source import DEFINITION_BYTES_MAX
from tests.plans.definitions import KNOWN


def refusal(text: str | bytes) -> str:
    made = read_definition(text)
    assert isinstance(made, list), made
    return "; ".join(map(str, made))


def test_yaml_is_read_as_what_json_has() -> None:
    text = """
    no: no
    time: 12:30
    day: 2030-01-31
    octal: 010
    quoted: '1'
    whole: -12
    part: 1.5e3
    truth: [true, True, false]
    nothing: [null, ~, ]
    long: |
      a
      b
    """
    assert read_definition(text) == {
        "no": "no",
        "time": "12:30",
        "day": "2030-01-31",
        "octal": "010",
        "quoted": "1",
        "whole": -12,
        "part": 1_500.0,
        "truth": [True, "True", False],
        "nothing": [None, None],
        "long": "a\nb\n",
    }


@pytest.mark.parametrize("text", ['{"a": 1}', "\ufeff{a: 1}", b"\xef\xbb\xbfa: 1", " {'a': 1} # flow\n", "---\na: 1\n"])
def test_every_format_gives_the_same_value(text: str | bytes) -> None:
    assert read_definition(text) == {"a": 1}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "$: expected an object with name, and nodes or steps, got null"),
        ("[]", "$: expected an object with name, and nodes or steps, got a list"),
        ("word", "got a text"),
        (b"a: 1\nb: \xff", "$: line 2: is not UTF-8"),
        ('{"a":\n 1,', "$: line 2: is not JSON"),
        ("a: 1\nb: ]", "$: line 2: is not YAML"),
        ("a: 1\n---\nb: 2", "$: line 2: has several documents"),
        ("a: &x 1\n", "$: line 1: an anchor (&x) is not read"),
        ("a: 1\nb: *x", "$: line 2: an alias (*x) is not read"),
        ("a: !!python/object/apply:os.system [x]", "$: line 1: a tag (!) is not read"),
        ("a: !secret b", "a tag (!) is not read"),
        ("? [a]\n: 1", "a key is a text"),
        ("a:\n  b: 1\n  b: 2", "$.a.b: is given twice"),
        ('{"a": [{"b": 1, "b": 2}], "a b": 1, "a b": 2}', '$["a b"]: is given twice: keep one of them; $.a[0].b:'),
        ("a: .nan", "$.a: is not a JSON number"),
        ('{"a": NaN}', "$.a: is not a JSON number"),
        ('{"a": 1e999}', "$.a: is not a JSON number"),
        (f'{{"a": {"9" * 5_000}}}', "$.a: is too large a number"),
        (f"a: {'9' * 5_000}", "$.a: is too large a number"),
        ('{"a": "\\u0000"}', "$.a: has a NUL character"),
        ("a: \0", "has a NUL character"),
        ('{"\\ud800": 1}', '$["\\ud800"]: its key has half of a surrogate pair'),
        ("a: " + "[" * 100, "is nested deeper than 64"),
        ("[" * 200_000, "is nested deeper than 64"),
        ('{"a": "' + "x" * DEFINITION_BYTES_MAX + '"}', "$: has 1048585 bytes, over 1048576"),
        ("a: " + "x" * DEFINITION_BYTES_MAX, "$: has 1048579 bytes, over 1048576"),
    ],
)
def test_values_that_cannot_be_stored_are_refused_with_their_path(text: str | bytes, words: str) -> None:
    assert words in refusal(text)


def test_a_bomb_of_aliases_is_refused_before_it_is_blown_up() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    assert "line 1: an anchor (&a0) is not read" in refusal("\n".join(lines))


def test_a_graph_of_ten_thousand_nodes_is_refused_by_its_nodes_too() -> None:
    nodes = ",".join(
        f'{{"id": "n{n}", "type": "email", "to": "{{{{ e }}}}", "template": "{"t" * 50}"}}' for n in range(10_000)
    )
    made = compile_definition(f'{{"name": "x", "entryNodeId": "n0", "nodes": [{nodes}]}}', KNOWN)
    assert isinstance(made, list)
    assert [one.path for one in made] == ["$", "$.nodes"]
    assert "has 10000 nodes, over 1000" in made[1].message


def test_numbers_are_kept_as_they_are() -> None:
    made = read_definition('{"a": [9223372036854775807, -9223372036854775807, 0.1, -0.0]}')
    assert isinstance(made, dict)
    assert made["a"][:3] == [2**63 - 1, -(2**63) + 1, 0.1]
    assert math.copysign(1, made["a"][3]) == -1
