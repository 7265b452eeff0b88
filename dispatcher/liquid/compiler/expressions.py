"""The expressions in tags and outputs, as Python expressions."""

from collections.abc import Mapping
from typing import Any, Final

from liquid.builtin.expressions import FilteredExpression, KeywordArgument, Nil, Path, StringLiteral, logical, primitive
from liquid.builtin.expressions.filtered import Filter
from liquid.expression import Expression
from markupsafe import Markup

from dispatcher.liquid.compiler import values
from dispatcher.liquid.compiler.scopes import Assigned, Loop, NotCompiled, Scope
from dispatcher.liquid.compiler.writer import Writer

_FROM_VALUES: Final = "at_most contains equal escape_text escaped is_true item items less plain present span window"
HELPERS: Final[Mapping[str, object]] = {
    **{name: getattr(values, name) for name in [*_FROM_VALUES.split(), "Markup", "MISSING", "Unsure"]},
    "enumerate": enumerate,
    "len": len,
    "list": list,
    "str": str,
    "type": type,
}
# Keys that mean something on what has no such key.
_COMPUTED: Final = frozenset({"size", "first", "last"})
_LOOP: Final[Mapping[str, str]] = {
    "index": "({i} + 1)",
    "index0": "{i}",
    "rindex": "({n} - {i})",
    "rindex0": "({n} - {i} - 1)",
    "first": "({i} == 0)",
    "last": "({i} == {n} - 1)",
}
_WORDS: Final[Mapping[type, str]] = {primitive.TrueLiteral: "True", primitive.FalseLiteral: "False", Nil: "None"}
# The helper, and whether it is asked the other way round.
_ORDER: Final[Mapping[type, tuple[str, bool]]] = {
    logical.LtExpression: ("less", False),
    logical.GtExpression: ("less", True),
    logical.LeExpression: ("at_most", False),
    logical.GeExpression: ("at_most", True),
    logical.ContainsExpression: ("contains", False),
}
_LOGICAL: Final = (
    logical.BooleanExpression,
    logical.LogicalAndExpression,
    logical.LogicalOrExpression,
    logical.LogicalNotExpression,
    logical.EqExpression,
    logical.NeExpression,
    *_ORDER,
)


class Expressions:
    """Writes expressions. Each is one that raises where the library may."""

    def __init__(self, writer: Writer, filters: Mapping[str, Any], *, autoescape: bool) -> None:
        self._writer = writer
        self._filters = filters
        self._autoescape = autoescape
        self._keys: dict[str, str] = {}
        self.calls = 0

    def output(self, code: str) -> str:
        """The text of a value, as it is put out."""
        if self._autoescape:
            return f"(escape_text(t) if type(t := {code}) is str else escaped(t))"
        return f"(t if type(t := {code}) is str else plain(t))"

    def value(self, expression: Expression, scope: Scope) -> str:
        """The value of an expression."""
        if type(expression) in _WORDS:
            return _WORDS[type(expression)]
        if isinstance(expression, FilteredExpression):
            return self._filtered(expression, scope)
        if isinstance(expression, Path):
            return self._path(expression, scope)
        if isinstance(expression, primitive.RangeLiteral):
            return f"span({self.value(expression.start, scope)}, {self.value(expression.stop, scope)})"
        if isinstance(expression, _LOGICAL):
            return self.condition(expression, scope)
        return self._writer.constant(self._literal(expression))

    def _literal(self, expression: Expression) -> object:
        match expression:
            case StringLiteral():
                # The author's own text needs no escaping.
                return Markup(expression.value) if self._autoescape else expression.value  # noqa: S704 - as said
            case primitive.IntegerLiteral() | primitive.FloatLiteral():
                return expression.value
            case primitive.Empty() | primitive.Blank():
                return expression
            case _:
                raise NotCompiled(type(expression).__name__)

    def condition(self, expression: Expression, scope: Scope) -> str:
        """Whether an expression holds."""
        while isinstance(expression, logical.BooleanExpression):
            expression = expression.expression
        match expression:
            case logical.LogicalAndExpression() | logical.LogicalOrExpression():
                word = "and" if isinstance(expression, logical.LogicalAndExpression) else "or"
                return f"({self.condition(expression.left, scope)} {word} {self.condition(expression.right, scope)})"
            case logical.LogicalNotExpression():
                return f"(not {self.condition(expression.right, scope)})"
            case logical.EqExpression() | logical.NeExpression():
                word = "not " if isinstance(expression, logical.NeExpression) else ""
                return f"({word}{self.equal(expression.left, expression.right, scope)})"
            case Path():
                return f"((t := {self.value(expression, scope)}) is not None and t is not False)"
            case _ if type(expression) in _ORDER:
                return self._ordered(expression, scope)
            case _:
                return f"is_true({self.value(expression, scope)})"

    def equal(self, left: Expression, right: Expression, scope: Scope) -> str:
        """Whether two expressions have the same value."""
        for text, other in ((left, right), (right, left)):
            if isinstance(text, StringLiteral) and not isinstance(other, StringLiteral):
                return f"({self.value(other, scope)} == {self._writer.constant(text.value)})"
        return f"equal({self.value(left, scope)}, {self.value(right, scope)})"

    def _ordered(self, expression: Any, scope: Scope) -> str:  # noqa: ANN401 - one of several classes without a common one
        helper, is_turned = _ORDER[type(expression)]
        pair = [self.value(expression.left, scope), self.value(expression.right, scope)]
        return f"{helper}({', '.join(reversed(pair) if is_turned else pair)})"

    def _filtered(self, expression: FilteredExpression, scope: Scope) -> str:
        code = self.value(expression.left, scope)
        for one in expression.filters or ():
            code = f"{self._filter(one)}({', '.join([code, *self._arguments(one, scope)])})"
        return code

    def _filter(self, one: Filter) -> str:
        if one.name not in self._filters:
            raise NotCompiled(one.name)
        self.calls += 1
        return self._writer.constant(self._filters[one.name])

    def _arguments(self, one: Filter, scope: Scope) -> list[str]:
        positional = [self.value(arg.value, scope) for arg in one.args if not isinstance(arg, KeywordArgument)]
        named = [
            f"{self._key(arg.name)}: {self.value(arg.value, scope)}"
            for arg in one.args
            if isinstance(arg, KeywordArgument)
        ]
        return [*positional, f"**{{{', '.join(named)}}}"] if named else positional

    def _key(self, text: str) -> str:
        if text not in self._keys:
            self._keys[text] = self._writer.constant(str(text))
        return self._keys[text]

    def _root(self, path: Path) -> str:
        root = path.path[0]
        if not isinstance(root, str):
            raise NotCompiled("a name that is computed")
        return root

    def _segment(self, segment: object, scope: Scope) -> str:
        if isinstance(segment, Path):
            return self._path(segment, scope)
        return self._key(segment) if isinstance(segment, str) else self._writer.constant(segment)

    def _path(self, path: Path, scope: Scope) -> str:
        place = scope.find(self._root(path))
        if isinstance(place, Loop):
            return self._loop(path, place)
        if place is None:
            code = f"v[{self._key(self._root(path))}]"
        else:
            code = str(_variable(place))
            if isinstance(place, Assigned) and not place.is_sure:
                code = f"present({code})"
        for segment in path.path[1:]:
            key = self._segment(segment, scope)
            is_plain = isinstance(segment, str) and segment not in _COMPUTED
            code = f"{code}[{key}]" if is_plain else f"item({code}, {key})"
        return code

    def _loop(self, path: Path, loop: Loop) -> str:
        """The fields of `forloop`; any other use of it is the library's."""
        key = path.path[1] if len(path.path) > 1 else None
        for segment in path.path[2:]:
            if key != "parentloop" or loop.parent is None:
                raise NotCompiled("forloop")
            loop, key = loop.parent, segment
        if key == "length":
            return loop.length
        if key == "name":
            return self._key(loop.title)
        if not isinstance(key, str) or key not in _LOOP:
            raise NotCompiled("forloop")
        loop.is_counted = True
        return _LOOP[key].format(i=loop.index, n=loop.length)


def _variable(place: str | Loop | Assigned) -> str:
    if isinstance(place, Loop):
        raise NotCompiled("forloop")
    return place.variable if isinstance(place, Assigned) else place
