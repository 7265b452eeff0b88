"""The Liquid of a plan: texts, JSON with texts in it, and conditions, each made ready once, then asked for its value.

A text that is nothing but one variable stands for the value of that, whatever it is; one without Liquid for itself.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

import msgspec
from liquid.ast import Node
from liquid.builtin.expressions import FilteredExpression, Path
from liquid.builtin.output import OutputNode
from msgspec import Struct

from dispatcher.base.errors import NeedsWorker, TemplateError
from dispatcher.liquid.compiler.filters import filters_of
from dispatcher.liquid.compiler.values import Unsure, item
from dispatcher.liquid.language import BoundedEnvironment, Partials, count_nodes
from dispatcher.liquid.pace import UNHURRIED, Pace
from dispatcher.liquid.sources import Parsed, Sources, parse
from dispatcher.liquid.template_part import Filters, Part
from dispatcher.plans.walk import missing_steps
from dispatcher.plans.walk.missing_steps import filled

TRUE: Final = "1"
_NO_SOURCES: Final = Sources({})
_NO_PARTIALS: Final = Partials({})
_encode = msgspec.json.Encoder().encode

Context = dict[str, Any]


class Bounds(Struct, frozen=True):
    """What one node may make, and one walk."""

    # One text; what the texts of one node's JSON become together.
    text_bytes_max: int = 262_144
    value_bytes_max: int = 1_048_576
    recipients_max: int = 1_000
    # All nodes that one walk enters; the rest is left to the next one.
    deliveries_max: int = 10_000
    # Of a digest: it is a key of an index.
    key_characters_max: int = 500
    pace: Pace = UNHURRIED


class Value(Protocol):
    """Something that has a value in a context, or raises a TemplateError."""

    def of(self, context: Context) -> Any:  # noqa: ANN401 - whatever JSON has
        """The value."""


class Constant:
    """What is the same in every context."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:  # noqa: ANN401 - JSON
        self._value = value

    def of(self, _context: Context) -> Any:  # noqa: ANN401 - JSON
        """What stands there."""
        return self._value


class _Variable:
    """A text that is nothing but one variable."""

    __slots__ = ("_is_step", "_more", "_name", "_root", "_shown")

    def __init__(self, name: str, path: missing_steps.Path) -> None:
        self._name = name
        self._root = path[0]
        self._more = path[1:]
        self._shown = ".".join(map(str, path))
        self._is_step = missing_steps.step_of(self._root) is not None

    def of(self, context: Context) -> Any:  # noqa: ANN401 - JSON
        """Its value; of a step that has none, an empty text."""
        value: Any = context
        try:
            value = value[self._root]
            for step in self._more:
                value = value[step] if type(value) is dict and step in value else item(value, step)
        except (Unsure, LookupError, TypeError) as fault:
            if self._is_step:
                return ""
            raise TemplateError(self._name, f"missing variable: {self._shown}") from fault
        return value


class _Text:
    """A text with Liquid in it."""

    __slots__ = ("_look", "_part", "_paths")

    def __init__(self, part: Part, paths: tuple[missing_steps.Path, ...], look: Callable[[], None]) -> None:
        self._part = part
        self._paths = paths
        self._look = look

    def of(self, context: Context) -> str:
        """The text."""
        self._look()
        return self._part.render(filled(context, self._paths) if self._paths else context)


class _ForSlack:
    """A text whose values are escaped as Slack wants it, and no further."""

    __slots__ = ("_text",)

    def __init__(self, text: Value) -> None:
        self._text = text

    def of(self, context: Context) -> str:
        """The text. Quotes were escaped as in HTML, which Slack does not read."""
        text: str = self._text.of(context)
        return text.replace("&#34;", '"').replace("&#39;", "'")


class _Condition:
    """A condition of a branch."""

    __slots__ = ("_text",)

    def __init__(self, text: Value) -> None:
        self._text = text

    def of(self, context: Context) -> bool:
        """Whether it holds."""
        return bool(self._text.of(context) == TRUE)


class _Budget:
    """What the texts of one node's JSON have left."""

    __slots__ = ("_bytes_max", "_left", "_name")

    def __init__(self, name: str, bytes_max: int) -> None:
        self._name = name
        self._bytes_max = bytes_max
        self._left = bytes_max

    def spend(self, value: Any) -> Any:  # noqa: ANN401 - JSON
        """Count a value, and raise when they have become too much together."""
        if isinstance(value, str):
            self._left -= len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))
        elif isinstance(value, dict | list):
            self._left -= len(as_json(self._name, value))
        if self._left < 0:
            raise TemplateError(self._name, f"becomes larger than {self._bytes_max} bytes")
        return value


_Make = Callable[[Context, _Budget], Any]


class _Json:
    """JSON with Liquid in its texts."""

    __slots__ = ("_bounds", "_make", "_name")

    def __init__(self, name: str, make: _Make, bounds: Bounds) -> None:
        self._name = name
        self._make = make
        self._bounds = bounds

    def of(self, context: Context) -> Any:  # noqa: ANN401 - JSON
        """The same JSON, each text with Liquid in it exchanged for its value."""
        return self._make(context, _Budget(self._name, self._bounds.value_bytes_max))


class Texts:
    """Makes the texts of one plan ready. They share one environment: one rendering at a time.

    `look` is called before each is parsed or rendered, and may raise.
    """

    def __init__(self, bounds: Bounds, look: Callable[[], None]) -> None:
        self._bounds = bounds
        self._look = look
        self._environment = BoundedEnvironment(autoescape=False, text_max=bounds.text_bytes_max, pace=bounds.pace)
        self._filters = filters_of(self._environment)
        self._escaping: BoundedEnvironment | None = None

    def text(self, name: str, source: str) -> Value:
        """A text; faults of it are called by that name."""
        if not has_liquid(source):
            return Constant(source)
        path = lone_path(self._parse(name, source.strip()).template.nodes)
        if path is not None:
            return _Variable(name, path)
        return self._rendered(name, source, self._environment, self._filters)

    def slack(self, name: str, source: str) -> Value:
        """A text for Slack: &, < and > in values mean themselves, those of the text what Slack means by them."""
        if not has_liquid(source):
            return Constant(source)
        if self._escaping is None:
            bounds = self._bounds
            self._escaping = BoundedEnvironment(autoescape=True, text_max=bounds.text_bytes_max, pace=bounds.pace)
        return _ForSlack(self._rendered(name, source, self._escaping, filters_of(self._escaping)))

    def condition(self, name: str, source: str) -> Value:
        """What stands between `{% if` and `%}`."""
        text = f"{{% if {source} %}}{TRUE}{{% endif %}}"
        return _Condition(self._rendered(name, text, self._environment, self._filters))

    def json(self, name: str, value: Any) -> Value:  # noqa: ANN401 - JSON
        """JSON with Liquid in its texts."""
        make = self._maker(name, value)
        return Constant(value) if make is None else _Json(name, make, self._bounds)

    def step_paths(self, sources: Iterable[str]) -> tuple[missing_steps.Path, ...]:
        """What these texts read of what steps provide."""
        found: dict[missing_steps.Path, None] = {}
        for source in sources:
            if missing_steps.STEP in source and has_liquid(source):
                found |= dict.fromkeys(_paths(self._parse("parts", source)))
        return tuple(sorted(found, key=str))

    def _parse(self, name: str, source: str, environment: BoundedEnvironment | None = None) -> Parsed:
        self._look()
        if count_nodes(source) > self._bounds.pace.nodes_max:
            raise NeedsWorker
        try:
            return parse(name, source, environment or self._environment, _NO_SOURCES, _NO_PARTIALS)
        except TemplateError as fault:
            raise TemplateError(name, fault.reason) from fault

    def _rendered(self, name: str, source: str, environment: BoundedEnvironment, filters: Filters) -> _Text:
        parse_it = partial(self._parse, name, source, environment)
        paths = _paths(parse_it()) if missing_steps.STEP in source else ()
        part = Part(name, parse_it, environment, filters, _NO_PARTIALS)
        return _Text(part, tuple(sorted(paths, key=str)), self._look)

    def _maker(self, name: str, value: Any) -> _Make | None:  # noqa: ANN401 - JSON
        """What makes the value in a context; None where it is the same in all."""
        if isinstance(value, str) and has_liquid(value):
            text = self.text(name, value)
            return lambda context, budget: budget.spend(text.of(context))
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


def as_json(name: str, value: Any) -> bytes:  # noqa: ANN401 - JSON
    """A value written out; raises for what no JSON has: half of a surrogate pair, a nest without a bottom."""
    try:
        return _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as fault:
        raise TemplateError(name, f"cannot be written as JSON: {type(fault).__name__}") from fault


def has_liquid(source: str) -> bool:
    """Whether a text is more than itself."""
    return "{{" in source or "{%" in source


def lone_path(nodes: Sequence[Node]) -> missing_steps.Path | None:
    """The path of a text that is nothing but one variable, without filters and without names that are computed."""
    if len(nodes) != 1 or not isinstance(nodes[0], OutputNode):
        return None
    expression = nodes[0].expression
    if not isinstance(expression, FilteredExpression) or expression.filters or not isinstance(expression.left, Path):
        return None
    path = tuple(step for step in expression.left.path if isinstance(step, str | int))
    return path if len(path) == len(expression.left.path) else None


def _paths(parsed: Parsed) -> list[missing_steps.Path]:
    """The paths under `step_N_...` that are read, each up to the first name that is computed."""
    found: list[missing_steps.Path] = []
    for name, several in parsed.template.analyze().globals.items():
        if missing_steps.step_of(name) is not None:
            for one in several:
                steps: list[str | int] = []
                for step in one.segments[: missing_steps.PATH_STEPS_MAX]:
                    if not isinstance(step, str | int):
                        break
                    steps.append(step)
                found.append(tuple(steps))
    return found
