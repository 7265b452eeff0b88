"""Compiled templates render what python-liquid renders, byte for byte, or leave it to python-liquid."""

import re
import tracemalloc
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from liquid import DictLoader, Environment, StrictUndefined

from dispatcher.base.errors import TemplateError
from dispatcher.liquid.sources import RAW_FILTERS
from dispatcher.liquid.template import RAW_HTML, Bounds, Renderer, Sources
from dispatcher.liquid.template_part import RENDERED_BEFORE_COMPILED, Part
from tests.liquid.liquid_templates import PARTIALS, data, templates
from tests.support.examples import examples

KINDS = ("html", "text")
VALUES: dict[str, Any] = {
    "name": "<Ann> & 'Bob'",
    "order": {"id": 7, "total": 19.99, "paid": True, "note": None, "day": "2026-03-02"},
    "rows": [{"title": "a<", "n": 1}, {"title": "b", "n": 2}, {"title": "c", "n": 3.5}],
    "none": [],
    "map": {"k": "v"},
}


def _part(kind: str, text: str, partials: dict[str, str] | None = None, rights: frozenset[str] = frozenset()) -> Part:
    renderer = Renderer(Bounds(262_144, 262_144, 100_000, 100))
    renderer.add("v:1", Sources({kind: text}, partials or {}, rights))
    (part,) = renderer._cached["v:1"].parts or ()
    return part


def _compiled(part: Part, values: dict[str, Any]) -> str | None:
    """The output of compiled code alone."""
    if not part.compile():
        return None
    return part._by_function(values)


def _bounded(part: Part, values: dict[str, Any]) -> str | TemplateError:
    """The output of the library within our bounds."""
    try:
        return part._by_library(values)
    except TemplateError as fault:
        return fault


def _library(kind: str, text: str, values: dict[str, Any]) -> str | Exception:
    """The output of the library by itself."""
    environment = Environment(undefined=StrictUndefined, autoescape=kind == "html", loader=DictLoader(dict(PARTIALS)))
    try:
        return environment.from_string(text).render(values)
    except Exception as fault:
        return fault


def _placeless(text: str | Exception) -> str:
    """A list that has the word `empty` in it is shown with the address of that, which is another one each time."""
    return re.sub(r"0x[0-9a-f]+", "0x", str(text))


# Making templates takes longer than rendering them, and longer still beside other work.
@settings(deadline=None, max_examples=examples(50, 400), suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(KINDS), templates, data)
def test_compiled_templates_render_as_the_library_does(kind: str, text: str, values: dict[str, Any]) -> None:
    try:
        part = _part(kind, text, PARTIALS, frozenset({RAW_HTML}))
    except TemplateError:
        assert isinstance(_library(kind, text, values), Exception)
        return
    bounded = _bounded(part, values)
    compiled = _compiled(part, values)
    if isinstance(bounded, str):
        assert _placeless(bounded) == _placeless(_library(kind, text, values))
        assert compiled in {None, bounded}
    else:
        assert compiled is None


COMPILED = {
    "a_text": "plain text %s {0} \\n",
    "nothing": "",
    "outputs": "Hello {{ name }}, {{ order.id }} {{ order['total'] }} {{ order.paid }}"
    "{{ order.note }} {{ rows[0].title }}",
    "computed_keys": "{{ rows.size }} {{ rows.first.title }} {{ rows.last.n }} {{ map.first }}{{ rows[order.paid].n }}",
    "filters": "{{ name | upcase | append: '!' | prepend: '<' }} {{ order.total | times: 3 | round: 2 }} "
    "{{ order.day | date: '%d.%m.%Y' }} {{ order.note | default: 'none' }} {{ name | escape }}"
    "{{ rows | map: 'n' | sum }}"
    "{{ order.note | default: 'x', allow_false: true }}",
    "assign": "{% assign a = name %}{{ a }}{% if order.paid %}{% assign a = 1 %}{% endif %}{{ a }}"
    "{% assign name = 2 %}{{ name }}",
    "capture": "{% capture a %}<{{ name }}>{% for row in rows %}{{ row.n }}{% endfor %}{% endcapture %}{{ a }}"
    "{{ a | size }}",
    "if": "{% if order.id == 7 and order.paid %}1{% elsif name == 'x' %}2{% else %}3{% endif %}"
    "{% if order.id < 3 or order.total >= 19.99 %}4{% endif %}{% if name contains 'Ann' %}5{% endif %}",
    "blank": "[{% if order.paid %} {% assign a = 1 %} \n{% endif %}]{% for row in rows %} {% endfor %}{{ a }}",
    "unless": "{% unless order.paid %}1{% elsif order.id == 7 %}2{% else %}3{% endunless %}",
    "truth": "{% if order.note %}1{% endif %}{% if none %}2{% endif %}{% if none == empty %}3{% endif %}"
    "{% if order.paid == 1 %}4{% endif %}{% if order.note == nil %}5{% endif %}{% if '' == blank %}6{% endif %}",
    "case": "{% case order.id %}{% when 1, 7 %}a{% when 7 %}b{% else %}c{% endcase %}",
    "for": "{% for row in rows %}{{ forloop.index }}/{{ forloop.length }} {{ row.title }}{% unless forloop.last %}, "
    "{% endunless %}{% else %}none{% endfor %}{% for row in none %}x{% else %}none{% endfor %}",
    "loops": "{% for a in rows limit: 2 offset: 1 reversed %}{% for i in (1..2) %}{{ forloop.parentloop.rindex0 }}"
    "{{ a.n }}{{ i }}"
    "{% if i == 2 %}{% continue %}{% endif %};{% endfor %}{% if a.n == 2 %}{% break %}{% endif %}{% endfor %}",
    "pairs": "{% for pair in map %}{{ pair[0] }}={{ pair.last }}{{ pair }}{% endfor %}",
    "space": "a  {{- name -}}  b {%- if order.paid -%} c {%- endif -%} d",
    "comment": "{% comment %}{{ missing }}{% endcomment %}{% # note %}{% raw %}{{ a }}{% endraw %}"
    "{% doc %}x{% enddoc %}",
    "liquid": "{% liquid\nassign a = 1\nfor row in rows\necho row.n\nendfor %}{{ a }}",
    "render": "{% render 'row', row: rows[0] %}{% for row in rows %}{% render 'row', row: row, c: 1 %}{% endfor %}"
    "{% render 'plain' with name as a %}{{ c | default: '' }}",
    "include": "{% include 'plain', a: name %}{% for a in rows %}{% include 'leaves' %}{{ a.n }}{% endfor %}"
    "{% include 'row', row: 1 %}{{ c }}",
    "words_of_python": "{% assign import = 1 %}{{ import }}{% for def in rows %}{{ def.n }}{% endfor %}"
    "{% assign v = 2 %}{% assign t = 3 %}{{ v }}{{ t }}{{ k1 }}{{ out }}{{ __import__ }}",
    "numbers": "{{ 1 }} {{ 2.50 }} {{ -3 }} {{ true }} {{ nil }} {{ (1..3) }} {{ 'a<b' }} {{ empty }}",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", COMPILED.values(), ids=COMPILED)
def test_common_template_constructs_are_compiled(kind: str, text: str) -> None:
    values = VALUES | {"c": "there", "k1": "<", "out": 1, "__import__": "a word"}
    part = _part(kind, text, PARTIALS)
    compiled = _compiled(part, values)
    expected = _bounded(part, values)
    assert isinstance(expected, str), expected
    assert compiled == expected


LEFT = {
    "increment": "{% increment n %}",
    "cycle": "{% cycle 'a', 'b' %}{% cycle 'a', 'b' %}",
    "tablerow": "{% tablerow row in rows %}{{ row.n }}{% endtablerow %}",
    "ifchanged": "{% for row in rows %}{% ifchanged %}x{% endifchanged %}{% endfor %}",
    "offset_continue": "{% for a in rows limit: 1 %}{{ a.n }}{% endfor %}"
    "{% for a in rows offset: continue %}{{ a.n }}{% endfor %}",
    "forloop_itself": "{% for a in rows %}{{ forloop }}{% endfor %}",
    "partial_itself": "{{ partial }}",
    "many_nodes": "{{ name }}" * 600,
    "deep_loops": "{% for a in (1..1) %}" * 12 + "x" + "{% endfor %}" * 12,
}


@pytest.mark.parametrize("text", LEFT.values(), ids=LEFT)
def test_templates_that_are_not_compiled_are_rendered_by_the_library(text: str) -> None:
    part = _part("text", text, PARTIALS)
    assert not part.compile()
    assert part.render(VALUES) == _library("text", text, VALUES)


FAULTY = {
    "missing": ("{{ nobody }}", "missing variable: line 1: 'nobody' is undefined"),
    "missing_path": ("first\n{{ order.nobody.x }}", "line 2: order.nobody"),
    "missing_in_a_loop": ("{% for row in rows %}{{ row.nobody }}{% endfor %}", "row.nobody"),
    "missing_condition": ("{% if nobody == nil %}x{% endif %}", "nobody"),
    "missing_after_a_branch": ("{% if order.note %}{% assign q = 1 %}{% endif %}{{ q }}", "'q' is undefined"),
    "missing_after_a_loop": ("{% for a in none %}{% capture q %}1{% endcapture %}{% endfor %}{{ q }}", "'q' is"),
    "attribute": ("{{ name.__class__ }}", "name.__class__"),
    "attribute_by_key": ("{{ rows['__class__'] }}", "__class__"),
    "method": ("{{ name.upper }}", "name.upper"),
    "keys": ("{{ map.keys }}", "map.keys"),
    "comparison": ("{% if name < 1 %}x{% endif %}", "line 1"),
    "filter_argument": ("{{ order.id | divided_by: 0 }}", "divided_by"),
    "unknown_filter": ("{{ name | nope }}", "unknown filter 'nope'"),
    "break": ("{% break %}", "unexpected 'break'"),
    "partial": ("{% render 'plain' %}", "partial 'plain' line 1: 'a' is undefined"),
    "no_partial": ("{% render 'nobody' %}", "nobody"),
    "include_in_render": ("{% render 'including' %}", "include usage is not allowed"),
    "NUL": ("{{ '%00' | url_decode }}", "renders NUL"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("text", "words"), FAULTY.values(), ids=FAULTY)
def test_a_fault_is_the_same_before_and_after_compiling(kind: str, text: str, words: str) -> None:
    part = _part(kind, text, PARTIALS | {"including": "{% include 'plain' %}"})
    said = set()
    for _ in range(RENDERED_BEFORE_COMPILED + 2):
        with pytest.raises(TemplateError) as fault:
            part.render(VALUES)
        said.add(str(fault.value))
    assert len(said) == 1
    assert words in said.pop()


BOUNDED = {
    "loops_in_a_row": "{% for a in (1..3000) %}{% assign b = a %}{% endfor %}" * 20,
    "nested_loops": "{% for a in (1..300) %}{% for b in (1..300) %}x{% break %}{% endfor %}{% break %}{% endfor %}",
    "loops_around_a_partial": "{% for a in (1..300) %}{% render 'many' %}{% break %}{% endfor %}",
    "filter_calls": "{% for a in (1..9000) %}{% assign b = a | plus: 1 | plus: 1 | plus: 1 %}{% endfor %}",
    "output": "{% for a in (1..5000) %}twenty-one characters{% endfor %}",
    "captured": "{% for a in (1..5000) %}{% capture b %}{{ b }}twenty-one characters{% endcapture %}{% endfor %}",
    "offset": "{% for a in (1..1000000) offset: 999999 %}{% endfor %}",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", BOUNDED.values(), ids=BOUNDED)
def test_compiled_code_stops_by_itself_where_the_library_would(kind: str, text: str) -> None:
    part = _part(kind, text, {"many": "{% for a in (1..300) %}x{% break %}{% endfor %}"})
    assert part.compile()
    assert _compiled(part, {"b": ""}) is None
    assert isinstance(_bounded(part, {"b": ""}), TemplateError)


def test_compiled_code_gathers_no_more_than_may_be_put_out() -> None:
    part = _part("text", "{% for i in (1..1000) %}{{ a }}!{% endfor %}")
    assert part.compile()
    tracemalloc.start()
    try:
        assert part._by_function({"a": "x" * 50_000}) is None
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


HOSTILE = "<script>\"'&"
ARGUMENTS = {"append": "'x'", "prepend": "'x'", "replace": "'s', 'S'", "replace_first": "'s', 'S'", "split": "','"}


FILTERS = sorted(set(Renderer(Bounds(1, 1, 1, 1))._escaping.filters) - RAW_FILTERS)


@pytest.mark.parametrize("name", FILTERS)
def test_no_filter_but_those_that_need_the_right_leaves_escaping(name: str) -> None:
    """Of what a template is given, nothing gets into html as it is."""
    for text in (f"{{{{ x | {name} }}}}", f"{{{{ x | {name}: {ARGUMENTS.get(name, 'x')} }}}}"):
        part = _part("html", text)
        for said in (_bounded(part, {"x": HOSTILE}), _compiled(part, {"x": HOSTILE})):
            assert isinstance(said, TemplateError) or said is None or "<" not in said


def test_a_part_is_compiled_when_it_has_been_rendered_a_few_times() -> None:
    part = _part("text", "{{ name }}")
    for _ in range(RENDERED_BEFORE_COMPILED - 1):
        part.render(VALUES)
    assert part._function is None
    part.render(VALUES)
    assert part._function is not None


def test_a_loop_that_the_library_has_no_time_for_is_compiled() -> None:
    """Else it would fail until it has been rendered a few times, and on a slow machine only."""
    part = _part("text", "{% for a in (1..19000) %}{% assign b = a %}{% assign c = b %}{{ c }}{% endfor %}")
    assert part.render({}).endswith("1899919000")
