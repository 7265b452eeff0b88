"""Samples: whatever a template does with its variables, those that are made up for it fit."""

import msgspec
import pytest

from dispatcher.engine.rules.life import STORED
from dispatcher.liquid.sample_variables import samples
from dispatcher.liquid.template import Bounds, Renderer, Sources


def rendered(body: str, **partials: str) -> str:
    """A body with what is made up for it."""
    sources = Sources({"body": body}, partials)
    renderer = Renderer(Bounds(100_000, 100_000, 100_000, 1))
    key = f"{STORED}1:en"
    renderer.add(key, sources)
    return renderer.render(key, msgspec.json.encode(samples(sources)).decode())["body"]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("nothing", "nothing"),
        ("{{ name }}", "Ann Sample"),
        ("{{ customer.first_name }} {{ customer.address.city }}", "Ann Sample city"),
        ("{% for item in order.items %}{{ item.price | times: 2 }} {% endfor %}", "24 24 "),
        ("{% for row in rows %}{% for cell in row.cells %}{{ cell }}{% endfor %};{% endfor %}", "cellcell;cellcell;"),
        ("{% assign all = order.items %}{% for one in all %}{{ one.title }},{% endfor %}", "title,title,"),
        ("{{ items[0].title }}", "title"),
        (
            "{% for item in items %}{{ item.title }}{% endfor %}{{ items.first.title }}{{ items.size }}",
            "titletitletitle2",
        ),
        ("{% if a and b.c %}{{ a }}{% else %}{{ d }}{% endif %}", "a"),
        ("{% case a %}{% when 'x' %}{{ b }}{% else %}{{ c }}{% endcase %}", "c"),
        ("{% capture x %}{{ y }}{% endcapture %}{{ x }}", "y"),
        ("{{ sent_at | date: '%Y' }} {{ email }} {{ link }}", "2030 ann@example.org https://example.org/sample"),
        ("{{ order_id }}{{ id }}", "1717"),
        ("{% for item in items %}{{ forloop.index }}{% endfor %}", "12"),
    ],
)
def test_made_up_variables_fit(body: str, text: str) -> None:
    assert rendered(body) == text


def test_they_fit_what_is_taken_in_too() -> None:
    body = "{% render 'card', person: buyer %}{% render 'row' for lines as line %}{% include 'foot' %}"
    parts = {"card": "{{ person.name }} ", "row": "{{ line.total }} ", "foot": "{{ company.city }}"}
    assert rendered(body, **parts) == "Ann Sample 12 12 city"


def test_the_same_template_has_the_same_samples() -> None:
    sources = Sources({"body": "{{ b }}{{ a.c }}{{ a.b }}"})
    assert msgspec.json.encode(samples(sources)) == msgspec.json.encode(samples(sources))
    assert list(samples(sources)) == ["a", "b"]


def test_partials_without_end_are_read_to_an_end() -> None:
    assert samples(Sources({"body": "{% render 'a' %}"}, {"a": "{{ x }}{% render 'a' %}"})) == {"x": "x"}
