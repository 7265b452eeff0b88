"""Liquid as Hypothesis makes it: templates of every tag and filter that there is, and data for them."""

import json
from typing import Any

from hypothesis import strategies as st

NAMES = ("a", "b", "c", "user", "rows", "missing", "x", "size")
KEYS = ("name", "first", "last", "size", "price", "b", "0")
LOOP_KEYS = ("index", "index0", "rindex", "rindex0", "first", "last", "length", "name", "parentloop.index")
FILTERS = (
    "upcase",
    "downcase",
    "capitalize",
    "strip",
    "escape",
    "escape_once",
    "size",
    "first",
    "last",
    "reverse",
    "sort",
    "uniq",
    "compact",
    "abs",
    "ceil",
    "floor",
    "round",
    "newline_to_br",
    "strip_html",
    "strip_newlines",
    "url_encode",
    "url_decode",
    "squish",
    "join",
    "sum",
    "safe",
)
FILTERS_WITH_ONE = (
    "append",
    "prepend",
    "default",
    "plus",
    "minus",
    "times",
    "divided_by",
    "modulo",
    "round",
    "at_most",
    "at_least",
    "join",
    "split",
    "truncate",
    "truncatewords",
    "remove",
    "slice",
    "map",
    "where",
    "concat",
    "replace",
)
LITERALS = (
    "'x'",
    "'<b>'",
    "''",
    "' '",
    "1",
    "0",
    "2.5",
    "-3",
    "true",
    "false",
    "nil",
    "empty",
    "blank",
    "(1..3)",
    "'1'",
)
# Line ends of every kind, a mark of byte order, and what no message may have in it.
ODD = ("\r", "\r\n", "\n\r", "\x85", "\u2028", "\u2029", "\ufeff", "\x00", "\ud800", "\udc00")
TEXTS = (" ", "\n", "text", "<p>", "ü & co", '%s {0} \\ \' " """', "}}", "{", "k1", "\t\n")

texts = st.one_of(st.sampled_from(TEXTS), st.sampled_from(ODD).map(lambda odd: f"a{odd}b"), st.sampled_from(ODD))
scalars: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 30),
    st.sampled_from([2**70, -(2**63), 1.5, -0.1, 1e22, 19.99, 0.1]),
    st.sampled_from(["", "x", "<b>&'\"", "2026-01-31", "a b c", " pad ", "ü", "1", "a,b", "line\nline"]),
    st.lists(st.sampled_from([*ODD, "a", "\n"]), min_size=1, max_size=4).map("".join),
)
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)),
    max_leaves=8,
)
data = st.fixed_dictionaries(
    {
        "a": scalars,
        "b": values,
        "user": st.dictionaries(st.sampled_from(KEYS), values, max_size=4),
        "rows": st.lists(values, max_size=5),
    },
    optional={"c": values, "x": scalars, "size": scalars},
).map(lambda made: json.loads(json.dumps(made)))


@st.composite
def paths(draw: st.DrawFn) -> str:
    """A variable, and a way into it."""
    path = draw(st.sampled_from((*NAMES, "a", "b", "user", "rows", "forloop", "row")))
    if path == "forloop":
        return f"forloop.{draw(st.sampled_from(LOOP_KEYS))}"
    for _ in range(draw(st.integers(0, 2))):
        path += draw(st.sampled_from(["[0]", "[-1]", "['name']", "[a]", *(f".{key}" for key in KEYS[:-1])]))
    return path


literals = st.one_of(st.sampled_from(LITERALS), st.sampled_from(ODD).map(lambda odd: f"'{odd}'"))
primitives = st.one_of(paths(), literals)


@st.composite
def filtered(draw: st.DrawFn) -> str:
    """A value with filters."""
    code = draw(primitives)
    for _ in range(draw(st.integers(0, 2))):
        if draw(st.booleans()):
            code += f" | {draw(st.sampled_from(FILTERS))}"
        else:
            code += f" | {draw(st.sampled_from(FILTERS_WITH_ONE))}: {draw(primitives)}"
    return draw(
        st.sampled_from([code, f"{code} | replace: 'x', {draw(primitives)}", f"{draw(primitives)} | date: '%d.%m.'"])
    )


@st.composite
def conditions(draw: st.DrawFn) -> str:
    """What an if asks."""
    operators = ["==", "!=", "<", ">", "<=", ">=", "<>", "contains"]
    parts = [
        draw(st.one_of(primitives, st.tuples(primitives, st.sampled_from(operators), primitives).map(" ".join)))
        for _ in range(draw(st.integers(1, 2)))
    ]
    return draw(st.sampled_from([" and ", " or "])).join(parts)


def tag(draw: st.DrawFn, words: str) -> str:
    """A tag, with or without control of white space."""
    return f"{{%{draw(st.sampled_from(['', '-']))} {words} {draw(st.sampled_from(['', '-']))}%}}"


def _loop(draw: st.DrawFn, inside: st.SearchStrategy[str]) -> str:
    over = draw(st.one_of(paths(), st.sampled_from(["rows", "(1..a)", "(1..4)"])))
    head = f"for {draw(st.sampled_from(['row', 'x', 'a']))} in {over}"
    for word in ("limit", "offset"):
        if draw(st.integers(0, 3)) == 0:
            head += f" {word}: {draw(st.one_of(st.integers(-1, 3).map(str), primitives))}"
    head += draw(st.sampled_from(["", "", " reversed"]))
    leave = draw(
        st.sampled_from(["", "", "{% break %}", "{% continue %}", "{% if forloop.last %}{% break %}{% endif %}"])
    )
    other = f"{tag(draw, 'else')}{draw(inside)}" if draw(st.booleans()) else ""
    return f"{tag(draw, head)}{draw(inside)}{leave}{draw(inside)}{other}{tag(draw, 'endfor')}"


def _case(draw: st.DrawFn, inside: st.SearchStrategy[str]) -> str:
    whens = "".join(
        f"{{% when {', '.join(draw(st.lists(primitives, min_size=1, max_size=2)))} %}}{draw(inside)}"
        for _ in range(draw(st.integers(1, 3)))
    )
    other = f"{{% else %}}{draw(inside)}" if draw(st.booleans()) else ""
    return f"{{% case {draw(primitives)} %}}{whens}{other}{{% endcase %}}"


@st.composite
def blocks(draw: st.DrawFn, inside: st.SearchStrategy[str]) -> str:
    """A tag with something inside."""
    kind = draw(st.sampled_from(["if", "unless", "for", "for", "capture", "case", "comment", "liquid"]))
    body = draw(inside)
    match kind:
        case "for":
            return _loop(draw, inside)
        case "case":
            return _case(draw, inside)
        case "capture":
            return f"{tag(draw, 'capture ' + draw(st.sampled_from(['c', 'x', 'a'])))}{body}{tag(draw, 'endcapture')}"
        case "comment":
            return f"{{% comment %}}{{{{ missing }}}}{{% if %}}{{% endcomment %}}{{% # note %}}{body}"
        case "liquid":
            return f"{{% liquid\nassign x = {draw(filtered())}\nif {draw(conditions())}\necho x\nendif\n%}}{body}"
        case _:
            pass
    other = draw(
        st.sampled_from(["", f"{{% elsif {draw(conditions())} %}}{draw(inside)}", f"{{% else %}}{draw(inside)}"])
    )
    return f"{tag(draw, f'{kind} {draw(conditions())}')}{body}{other}{tag(draw, f'end{kind}')}"


@st.composite
def leaves(draw: st.DrawFn) -> str:
    """What has nothing inside."""
    match draw(st.sampled_from(["text", "text", "output", "output", "assign", "raw", "partial", "rare"])):
        case "text":
            return draw(texts)
        case "output":
            return f"{{{{{draw(st.sampled_from(['', '-']))} {draw(filtered())} {draw(st.sampled_from(['', '-']))}}}}}"
        case "assign":
            return tag(draw, f"assign {draw(st.sampled_from(['c', 'x', 'a', 'missing']))} = {draw(filtered())}")
        case "raw":
            return "{% raw %}{{ a }}{% endraw %}"
        case "partial":
            given = draw(
                st.sampled_from(["", ", a: b", ", x: 1, row: rows[0]", " with user as row", " for rows as row"])
            )
            name = draw(st.sampled_from(sorted(PARTIALS)))
            return f"{{% {draw(st.sampled_from(['render', 'include']))} '{name}'{given} %}}"
        case _:
            return draw(
                st.sampled_from(["{% increment x %}", "{% cycle 'a', 'b' %}", "{{ forloop }}", "{{ partial }}", ""])
            )


PARTIALS = {
    "plain": "[{{ a }}]",
    "row": "<li>{{ row }}{% assign c = 'from a partial' %}{{ c }}</li>",
    "loop": "{% for i in (1..3) %}{{ i }}{{ x }}{% break %}{% endfor %}{% if forloop %}!{% endif %}",
    "leaves": "{% break %}",
    "nested": "{% render 'plain', a: 'given' %}{% assign a = 1 %}{{ a }}",
}

sequences: st.SearchStrategy[str] = st.deferred(
    lambda: st.lists(st.one_of(leaves(), blocks(sequences)), max_size=4).map("".join)
)
templates = st.lists(st.one_of(leaves(), blocks(sequences)), min_size=1, max_size=6).map("".join)
