"""The sources of a version: every fault with its line, the variables that it reads, and what it has a right to."""

import pytest

from dispatcher.base.errors import TemplateError
from dispatcher.liquid.sources import SourceReader
from dispatcher.liquid.template import RAW_HTML, Bounds, Fault, Renderer, Sources, faults, variables


def _renderer() -> Renderer:
    return Renderer(Bounds(262_144, 262_144, 100_000, 100))


def test_every_fault_of_every_part_has_its_line() -> None:
    sources = Sources(
        {
            "subject": "{{ a | nope }}",
            "text": "fine {{ a }}",
            "html": "one\n{% if %}x{% endif %}\n{{ b | | c }}\n{% unknown %}\n{{ a | worse }}",
        },
        {"foot": "\n\n{{ x"},
    )
    found = [(one.part, one.line) for one in faults(sources)]
    assert found == [("subject", 1), ("html", 2), ("html", 3), ("html", 4), ("html", 5), ("partials.foot", 3)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{% render 'nobody' %}", "there is no partial 'nobody'"),
        ("{% include name %}", "a partial is named in quotes"),
        ("{% render 'self' %}", "the partial 'self' renders itself"),
        ("{% include 'ping' %}", "the partial 'ping' renders itself"),
        ("{% render 'bomb1' %}", "renders more than"),
        ("{{ a }}" * 6_000, "more than 5000 tags"),
        ("{% comment %}" + "{% raw %}" * 20, "20 raw tags have no end"),
        ("{% if a %}" * 60 + "{% endif %}" * 60, "block nesting limit reached"),
        ("{% if a %}", "expected tag endif"),
    ],
)
def test_a_template_that_can_never_render_is_a_fault(text: str, words: str) -> None:
    partials = {
        "self": "{% render 'self' %}",
        "ping": "{% include 'pong' %}",
        "pong": "{% include 'ping' %}",
        **{f"bomb{n}": f"{{% render 'bomb{n + 1}' %}}" * 20 for n in range(1, 9)},
        "bomb9": "x",
    }
    assert words in " ".join(one.words for one in faults(Sources({"text": text}, partials)) if one.part == "text")


def test_a_version_without_faults_has_none() -> None:
    sources = Sources({"html": "{% render 'a', x: b %}{{ c | upcase }}"}, {"a": "{{ x | escape }}"})
    assert faults(sources) == []


def test_raw_html_is_a_right() -> None:
    parts, partials = {"html": "\n{{ a | safe }}", "text": "{{ a | safe }}"}, {"p": "{{ a | safe }}"}
    assert [(one.part, one.line) for one in faults(Sources(parts, {}))] == [("html", 2)]
    assert faults(Sources(parts, {}, frozenset({RAW_HTML}))) == []
    hidden = Sources({"html": "{% if a %}{% render 'p' %}{% endif %}", "text": "{% render 'p' %}"}, partials)
    assert [one.part for one in faults(hidden)] == ["html"]
    with pytest.raises(TemplateError, match=r"template\.html: .*raw_html"):
        _renderer().add("v:1", hidden)
    renderer = _renderer()
    renderer.add("v:1", Sources(hidden.parts, partials, frozenset({RAW_HTML})))
    assert renderer.render("v:1", '{"a": "<b>"}') == {"html": "<b>", "text": "<b>"}


def test_a_source_in_a_delivery_has_no_rights() -> None:
    source = '{"html": "{{ a | safe }}"}'
    with pytest.raises(TemplateError, match="raw_html"):
        _renderer().check(source)
    with pytest.raises(TemplateError, match="raw_html"):
        _renderer().render(source, '{"a": "x"}')


def test_variables_are_the_paths_that_are_read_and_not_what_the_template_makes_itself() -> None:
    sources = Sources(
        {
            "subject": "{{ name }} {{ order['id'] }}",
            "html": "{% assign a = b %}{{ a }}{% for item in order.items %}{{ item.title }}{{ forloop.index }}"
            "{% endfor %}"
            "{% if x.y == z %}{% elsif w %}{% endif %}{% render 'foot', given: p.q %}{{ rows[0].n }}{{ m[k.l] }}"
            "{% capture cap %}{{ 'x' | append: inside }}{% endcapture %}{{ cap }}",
        },
        {"foot": "{{ given }} {{ shop }}"},
    )
    assert variables(sources) == (
        "b",
        "inside",
        "k.l",
        "m[k.l]",
        "name",
        "order.id",
        "order.items",
        "p.q",
        "rows[0].n",
        "shop",
        "w",
        "x.y",
        "z",
    )


def test_variables_of_what_has_faults_are_not_told() -> None:
    with pytest.raises(TemplateError):
        variables(Sources({"text": "{% if %}"}))


def test_a_version_is_rendered_under_its_key() -> None:
    renderer = _renderer()
    assert not renderer.has("v:17:de")
    with pytest.raises(TemplateError):
        renderer.render("v:17:de", "{}")
    renderer.add("v:17:de", Sources({"text": "Hallo {{ name }}{% render 'p' %}"}, {"p": "!"}))
    assert renderer.has("v:17:de")
    assert renderer.render("v:17:de", '{"name": "Ann"}') == {"text": "Hallo Ann!"}


def test_partials_of_one_version_are_not_those_of_another() -> None:
    renderer = _renderer()
    for number in range(3):
        renderer.add(
            f"v:{number}",
            Sources({"text": "{% tablerow i in (1..1) %}{% render 'p' %}{% endtablerow %}"}, {"p": str(number)}),
        )
    for number in (2, 0, 1):
        assert f">{number}</td>" in renderer.render(f"v:{number}", "{}")["text"]


def test_a_key_is_not_a_template_and_a_version_not_larger_than_a_template() -> None:
    with pytest.raises(ValueError, match="looks like"):
        _renderer().add('{"text": "x"}', Sources({"text": "y"}))
    with pytest.raises(TemplateError, match=r"template\.text: larger"):
        Renderer(Bounds(50, 50, 50, 5)).add("v:1", Sources({"text": "x" * 100}))


def test_a_fault_reads_as_one_line() -> None:
    assert str(Fault("html", 3, "no")) == "line 3: no"
    assert str(Fault("html", 0, "no")) == "no"


@pytest.mark.parametrize("broken", ["{{ b | }}", "{% if b == %}x{% endif %}", "{% assign b = %}", "{{ b"])
def test_an_unclosed_tag_is_a_fault_with_its_line(broken: str) -> None:
    (fault,) = faults(Sources({"text": f"{{{{ a }}}}\n\n{broken}"}))
    assert fault.line == 3


def test_texts_are_looked_at_like_the_parts_of_a_version() -> None:
    texts = SourceReader()
    samples = [
        "plain",
        "{{ a.b | nope }}",
        "\n{% if %}",
        "{{ a['b c'][0] }}{{ d[e] }}",
        "{{ a | safe }}",
        "|" * 6_000,
        "{{",
    ]
    for part in ("text", "html"):
        for text in [*samples, *samples]:
            sources = Sources({part: text})
            found, read = texts.read(part, text)
            assert found == faults(sources)
            if not found:
                assert tuple(sorted(set(map(str, read)))) == variables(sources)
