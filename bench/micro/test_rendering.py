"""The cost of rendering: the order mail, compiled, by python-liquid and by Jinja2; and a text of one line."""

# ruff: noqa: S101 - these are tests, and asserting is what tests do
import json
from collections.abc import Callable

import jinja2
import pytest
from liquid import Environment, StrictUndefined
from pytest_benchmark.fixture import BenchmarkFixture

from bench.micro.templates import FILTERED, ORDER, VALUES, VARIABLES
from dispatcher.liquid.template import Bounds, Renderer, Sources

BYTES_MAX = 256 * 1024
WARM = 10
LINE = json.dumps({"body": "Hello {{ name }}, order {{ order.id }}"})
Render = Callable[[], dict[str, str]]


def _warm(render: Render) -> Render:
    for _ in range(WARM):
        render()
    return render


def ours(parts: dict[str, str]) -> Render:
    """A stored version, rendered under its key, from the variables as the database has them."""
    renderer = Renderer(Bounds(BYTES_MAX, BYTES_MAX, BYTES_MAX, 100))
    renderer.add("v:1:en", Sources(parts))
    return _warm(lambda: renderer.render("v:1:en", VARIABLES))


def liquid(parts: dict[str, str]) -> Render:
    """The library alone, without our bounds, and given the values and not their text."""
    plain = Environment(undefined=StrictUndefined)
    escaping = Environment(undefined=StrictUndefined, autoescape=True)
    parsed = {part: (escaping if part == "html" else plain).from_string(text) for part, text in parts.items()}
    return _warm(lambda: {part: one.render(VALUES) for part, one in parsed.items()})


def jinja(parts: dict[str, str]) -> Render:
    """Jinja2, of the same source, likewise."""
    plain = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)  # noqa: S701 - not HTML
    escaping = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=True)
    parsed = {part: (escaping if part == "html" else plain).from_string(text) for part, text in parts.items()}
    return _warm(lambda: {part: one.render(VALUES) for part, one in parsed.items()})


@pytest.mark.parametrize("engine", [ours, liquid, jinja], ids=["compiled", "python-liquid", "jinja2"])
def test_an_order_mail_is_rendered(benchmark: BenchmarkFixture, engine: Callable[[dict[str, str]], Render]) -> None:
    assert benchmark(engine(ORDER)) == liquid(ORDER)()


@pytest.mark.parametrize("engine", [ours, liquid], ids=["compiled", "python-liquid"])
def test_an_order_mail_with_filters_is_rendered(
    benchmark: BenchmarkFixture, engine: Callable[[dict[str, str]], Render]
) -> None:
    assert benchmark(engine(FILTERED)) == liquid(FILTERED)()


def test_a_line_is_rendered(benchmark: BenchmarkFixture) -> None:
    renderer = Renderer(Bounds(BYTES_MAX, BYTES_MAX, BYTES_MAX, 100))
    variables = '{"name": "Ann", "order": {"id": "A-1"}}'
    render = _warm(lambda: renderer.render(LINE, variables))
    assert benchmark(render) == {"body": "Hello Ann, order A-1"}


def test_an_order_mail_is_compiled(benchmark: BenchmarkFixture) -> None:
    renderer = Renderer(Bounds(BYTES_MAX, BYTES_MAX, BYTES_MAX, 100))

    def compile_all() -> int:
        renderer.add("v:1:en", Sources(ORDER))
        return sum(part.compile() for part in renderer._cached["v:1:en"].parts or ())

    assert benchmark(compile_all) == len(ORDER)
