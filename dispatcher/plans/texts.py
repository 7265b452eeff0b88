"""The Liquid of a plan: texts, JSON with texts in it, and conditions, each prepared once, then evaluated in a context.

A text that is nothing but one variable has the value of that variable, of any type. A text without Liquid is its value.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
from liquid.ast import Node
from liquid.builtin.expressions import FilteredExpression, Path
from liquid.builtin.output import OutputNode
from liquid.static_analysis import Segments
from msgspec import Struct

from dispatcher.base.errors import NeedsWorker, TemplateError
from dispatcher.liquid.compiler.filters import filters_of
from dispatcher.liquid.compiler.values import Unsure, item
from dispatcher.liquid.language import NO_PARTIALS, BoundedEnvironment, count_nodes
from dispatcher.liquid.render_limits import WORKER_LIMITS, RenderLimits
from dispatcher.liquid.sources import Parsed, Sources, parse
from dispatcher.liquid.template_part import Filters, Part
from dispatcher.plans.walk import missing_steps
from dispatcher.plans.walk.missing_steps import fill_missing

TRUE: Final = "1"
_NO_SOURCES: Final = Sources({})
_encode = msgspec.json.Encoder().encode

Context = dict[str, Any]
# What has a value in a context, or raises a TemplateError.
Value = Callable[[Context], Any]


class Bounds(Struct, frozen=True):
    """The limits of one node, and of one walk."""

    # One text; all texts of one node's JSON.
    text_bytes_max: int = 262_144
    value_bytes_max: int = 1_048_576
    recipients_max: int = 1_000
    # All nodes that one walk enters; the rest is left to the next one.
    deliveries_max: int = 10_000
    # Of a digest: it is a key of an index.
    key_characters_max: int = 500
    limits: RenderLimits = WORKER_LIMITS


def _constant(value: Any) -> Value:  # noqa: ANN401 - JSON
    return lambda _context: value


def _variable(name: str, path: missing_steps.Path) -> Value:
    """The value of a text that is nothing but one variable; the empty text for a step that has no value."""
    root, *steps = path
    is_step = missing_steps.step_of(root) is not None

    def value(context: Context) -> Any:  # noqa: ANN401 - JSON
        found: Any = context
        try:
            found = found[root]
            for step in steps:
                found = found[step] if type(found) is dict and step in found else item(found, step)
        except (Unsure, LookupError, TypeError) as fault:
            if is_step:
                return ""
            raise TemplateError(name, f"missing variable: {'.'.join(map(str, path))}") from fault
        return found

    return value


class _Budget:
    """The bytes that the texts of one node's JSON have left."""

    def __init__(self, name: str, bytes_max: int) -> None:
        self._name = name
        self._bytes_max = bytes_max
        self._left = bytes_max

    def spend(self, value: Any) -> Any:  # noqa: ANN401 - JSON
        """Count a value; raise where all values are too large together."""
        if isinstance(value, str):
            self._left -= len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))
        elif isinstance(value, dict | list):
            self._left -= len(as_json(self._name, value))
        if self._left < 0:
            raise TemplateError(self._name, f"becomes larger than {self._bytes_max} bytes")
        return value


_Make = Callable[[Context, _Budget], Any]


class Texts:
    """Prepares the texts of one plan. They share one environment: one rendering at a time.

    `check_time` is called before each is parsed or rendered, and may raise.
    """

    def __init__(self, bounds: Bounds, check_time: Callable[[], None]) -> None:
        self._bounds = bounds
        self._check_time = check_time
        self._environment = _environment(bounds, autoescape=False)
        self._filters = filters_of(self._environment)
        self._escaping: BoundedEnvironment | None = None

    def text(self, name: str, source: str) -> Value:
        """The value of a text; its faults carry this name."""
        if not has_liquid(source):
            return _constant(source)
        path = single_variable_path(self._parse(name, source.strip()).template.nodes)
        if path is not None:
            return _variable(name, path)
        return self._rendered(name, source, self._environment, self._filters)

    def slack(self, name: str, source: str) -> Value:
        """A text for Slack: &, < and > in values mean themselves, those of the text what Slack means by them."""
        if not has_liquid(source):
            return _constant(source)
        if self._escaping is None:
            self._escaping = _environment(self._bounds, autoescape=True)
        text = self._rendered(name, source, self._escaping, filters_of(self._escaping))
        # Quotes were escaped as in HTML, which Slack does not read.
        return lambda context: text(context).replace("&#34;", '"').replace("&#39;", "'")

    def condition(self, name: str, source: str) -> Value:
        """Whether the expression between `{% if` and `%}` holds."""
        text = f"{{% if {source} %}}{TRUE}{{% endif %}}"
        rendered = self._rendered(name, text, self._environment, self._filters)
        return lambda context: rendered(context) == TRUE

    def json(self, name: str, value: Any) -> Value:  # noqa: ANN401 - JSON
        """JSON with Liquid in its texts."""
        make = self._maker(name, value)
        if make is None:
            return _constant(value)
        return lambda context: make(context, _Budget(name, self._bounds.value_bytes_max))

    def step_paths(self, sources: Iterable[str]) -> tuple[missing_steps.Path, ...]:
        """The variables of steps that these texts read."""
        found: dict[missing_steps.Path, None] = {}
        for source in sources:
            if missing_steps.STEP in source and has_liquid(source):
                found |= dict.fromkeys(_paths(self._parse("parts", source)))
        return tuple(sorted(found, key=str))

    def variables(self, source: str) -> list[Segments]:
        """The variables that a text reads, step by step."""
        every = self._parse("text", source).template.analyze().globals.values()
        return [one.segments[: missing_steps.PATH_STEPS_MAX] for several in every for one in several]

    def _parse(self, name: str, source: str, environment: BoundedEnvironment | None = None) -> Parsed:
        self._check_time()
        if count_nodes(source) > self._bounds.limits.nodes_max:
            raise NeedsWorker
        try:
            return parse(name, source, environment or self._environment, _NO_SOURCES, NO_PARTIALS)
        except TemplateError as fault:
            raise TemplateError(name, fault.reason) from fault

    def _rendered(self, name: str, source: str, environment: BoundedEnvironment, filters: Filters) -> Value:
        parse_it = partial(self._parse, name, source, environment)
        paths = tuple(sorted(_paths(parse_it()), key=str)) if missing_steps.STEP in source else ()
        part = Part(name, parse_it, environment, filters, NO_PARTIALS)

        def render(context: Context) -> str:
            self._check_time()
            return part.render(fill_missing(context, paths) if paths else context)

        return render

    def _maker(self, name: str, value: Any) -> _Make | None:  # noqa: ANN401 - JSON
        """The function that makes the value in a context; None for a constant value."""
        if isinstance(value, str) and has_liquid(value):
            text = self.text(name, value)
            return lambda context, budget: budget.spend(text(context))
        if isinstance(value, Mapping):
            return self._object(name, value)
        return self._list(name, value) if isinstance(value, list | tuple) else None

    def _object(self, name: str, value: Mapping[str, Any]) -> _Make | None:
        made = {key: self._maker(f"{name}.{key}", inner) for key, inner in value.items()}
        changing = [(key, make) for key, make in made.items() if make is not None]
        if not changing:
            return None
        return lambda context, budget: {**value, **{key: make(context, budget) for key, make in changing}}

    def _list(self, name: str, value: Sequence[Any]) -> _Make | None:
        makers = [self._maker(f"{name}[{place}]", inner) for place, inner in enumerate(value)]
        if not any(makers):
            return None
        pairs = list(zip(makers, value, strict=True))
        return lambda context, budget: [make(context, budget) if make else inner for make, inner in pairs]


def _environment(bounds: Bounds, *, autoescape: bool) -> BoundedEnvironment:
    return BoundedEnvironment(autoescape=autoescape, text_max=bounds.text_bytes_max, limits=bounds.limits)


def as_json(name: str, value: Any) -> bytes:  # noqa: ANN401 - JSON
    """A value as JSON; raises for half of a surrogate pair, and for endless nesting."""
    try:
        return _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as fault:
        raise TemplateError(name, f"cannot be written as JSON: {type(fault).__name__}") from fault


def has_liquid(source: str) -> bool:
    """Whether a text has Liquid in it."""
    return "{{" in source or "{%" in source


def single_variable_path(nodes: Sequence[Node]) -> missing_steps.Path | None:
    """The path of a text that is nothing but one variable, without filters and without names that are computed."""
    if len(nodes) != 1 or not isinstance(nodes[0], OutputNode):
        return None
    expression = nodes[0].expression
    if not isinstance(expression, FilteredExpression) or expression.filters or not isinstance(expression.left, Path):
        return None
    path = tuple(step for step in expression.left.path if isinstance(step, str | int))
    return path if len(path) == len(expression.left.path) else None


def known_steps(segments: Segments) -> missing_steps.Path:
    """The steps to a variable, up to the first that is computed."""
    steps: list[str | int] = []
    for one in segments:
        if isinstance(one, list):
            break
        steps.append(one)
    return tuple(steps)


def condition_paths(texts: Texts, source: str) -> tuple[missing_steps.Path, ...]:
    """What a condition reads, as far as that is known before."""
    segments = texts.variables(f"{{% if {source} %}}{{% endif %}}")
    return tuple(sorted({path for one in segments if (path := known_steps(one))}, key=str))


def _paths(parsed: Parsed) -> list[missing_steps.Path]:
    """The paths under `step_N_...` that are read."""
    every = parsed.template.analyze().globals.items()
    variables = (one for name, several in every if missing_steps.step_of(name) is not None for one in several)
    return [known_steps(one.segments[: missing_steps.PATH_STEPS_MAX]) for one in variables]
