"""Sample variables, made up from how a template uses them, for a preview without variables."""

from collections.abc import Iterable, Mapping
from typing import Any

from liquid import DictLoader, Environment, RenderContext
from liquid.ast import Node
from liquid.builtin.expressions import LoopExpression, Path
from liquid.expression import Expression
from msgspec import Struct, field

from dispatcher.liquid.template import Sources

# How often a loop over something made up goes round.
ITEMS = 2
# A template that includes itself ends here.
DEPTH_MAX = 30

_NUMBERS = ("amount", "price", "total", "sum", "count", "quantity", "number", "size", "minutes", "hours", "days", "age")
_WORDS: tuple[tuple[tuple[str, ...], Any], ...] = (
    (("email", "mail"), "ann@example.org"),
    (("url", "link", "href"), "https://example.org/sample"),
    (("phone", "mobile"), "+4915550000001"),
    (("date", "time", "_at", "_on", "day"), "2030-01-31T12:00:00Z"),
    (("currency",), "EUR"),
    (_NUMBERS, 12),
)


class Shape(Struct):
    """The shape of a value: an object with these fields, a list of these items, or plain."""

    fields: dict[str, "Shape"] = field(default_factory=dict)
    item: "Shape | None" = None


Scope = Mapping[str, Shape]


def samples(sources: Sources) -> dict[str, Any]:
    """Variables with which every part can be rendered, as far as reading it tells."""
    environment = Environment(loader=DictLoader(dict(sources.partials)))
    root = Shape()
    for text in sources.parts.values():
        template = environment.from_string(text)
        _Reading(root, RenderContext(template)).read(template.nodes, {}, 0)
    return {name: _value(name, shape) for name, shape in sorted(root.fields.items())}


class _Reading:
    """Follows the nodes of a template; names of its own stand for the shapes that they were made of."""

    def __init__(self, root: Shape, context: RenderContext) -> None:
        self._root = root
        self._context = context

    def read(self, nodes: Iterable[Node], scope: Scope, depth: int) -> None:
        """See what these nodes use."""
        own = dict(scope)
        for node in nodes if depth < DEPTH_MAX else ():
            inner: dict[str, Shape] = {} if node.token.value == "render" else dict(own)
            for expression in node.expressions():
                self._use(expression, own)
                if isinstance(expression, LoopExpression):
                    inner[expression.identifier] = self._item(expression.iterable, own)
            for name in (*node.block_scope(), *_named(node)):
                inner.setdefault(str(name), Shape())
            self._hand_in(node, own, inner)
            assigned = [str(name) for name in node.template_scope()]
            for name in assigned:
                own[name] = self._source(node, own) or Shape()
            self.read(node.children(self._context), inner | {name: own[name] for name in assigned}, depth + 1)

    def _hand_in(self, node: Node, scope: Scope, inner: dict[str, Shape]) -> None:
        """Bind the arguments of a partial to their names inside of it."""
        for argument in getattr(node, "args", None) or ():
            inner[str(argument.name)] = self._shape(argument.value, scope) or Shape()
        given = getattr(node, "var", None)
        if given is not None and node.token.value in {"render", "include"}:
            name = str(getattr(node, "alias", None) or str(getattr(node.name, "value", "")).split(".", 1)[0])  # type: ignore[attr-defined]  # as both tags have it
            loops = getattr(node, "loop", False)
            inner[name] = self._item(given, scope) if loops else self._shape(given, scope) or Shape()

    def _source(self, node: Node, scope: Scope) -> Shape | None:
        """The path that was assigned to a name, where it has no filters."""
        given = next(iter(node.expressions()), None)
        left = getattr(given, "left", given)
        return None if getattr(given, "filters", None) else self._shape(left, scope)

    def _use(self, expression: Expression, scope: Scope) -> None:
        self._shape(expression, scope)
        for child in expression.children():
            self._use(child, scope)

    def _item(self, expression: Expression, scope: Scope) -> Shape:
        shape = self._shape(expression, scope)
        if shape is None:
            return Shape()
        shape.item = shape.item or Shape()
        return shape.item

    def _shape(self, expression: object, scope: Scope) -> Shape | None:
        """The shape at a path; made on the way."""
        if not isinstance(expression, Path):
            return None
        shape: Shape | None = None
        for segment in expression.path:
            if shape is None:
                shape = scope.get(str(segment)) or self._root.fields.setdefault(str(segment), Shape())
            elif isinstance(segment, int) or (shape.item is not None and segment in ("first", "last")):
                shape.item = shape.item or Shape()
                shape = shape.item
            elif isinstance(segment, str):
                if segment == "size":
                    return shape
                shape = shape.fields.setdefault(segment, Shape())
            else:
                # A name that is known only when it is rendered.
                return Shape()
        return shape


def _named(node: Node) -> Iterable[object]:
    partial = node.partial_scope()
    return () if partial is None else partial.in_scope


def _value(name: str, shape: Shape) -> Any:  # noqa: ANN401 - whatever JSON has
    if shape.item is not None:
        return [_value(name.removesuffix("s"), shape.item) for _ in range(ITEMS)]
    if shape.fields:
        return {key: _value(key, inner) for key, inner in sorted(shape.fields.items())}
    lower = name.lower()
    for words, value in _WORDS:
        if any(word in lower for word in words):
            return value
    if lower == "id" or lower.endswith("_id"):
        return 17
    return "Ann Sample" if "name" in lower else name.replace("_", " ")
