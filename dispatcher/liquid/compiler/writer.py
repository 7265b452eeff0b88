"""The code of a compiled template, line by line, and the function that becomes of it.

A line consists of our own words. What comes out of a template (texts, names, numbers) stands in it as the name of
a constant, and is put in its place after the lines were parsed: no template can say anything in Python.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FunctionType
from typing import Any, Final

# What Python keeps in its code; everything else is a global of the function.
_LITERAL: Final = (str, int, float)
JOIN: Final = "JOIN"


class Writer:
    """Writes one function."""

    def __init__(self, helpers: Mapping[str, object]) -> None:
        self._lines: list[str] = []
        self._depth = 1
        self._names = 0
        self._constants: dict[str, str | int | float] = {}
        self._globals: dict[str, object] = {"__builtins__": {}, **helpers}

    def name(self, what: str) -> str:
        """A variable that nothing else has."""
        self._names += 1
        return f"{what}{self._names}"

    def constant(self, value: object) -> str:
        """The name under which a line has this value."""
        name = self.name("k")
        if isinstance(value, str | int | float) and type(value) in _LITERAL:
            self._constants[name] = value
        else:
            self._globals[name] = value
        return name

    def line(self, text: str) -> None:
        """Add a line."""
        self._lines.append(f"{' ' * self._depth}{text}")

    def reserve(self) -> Callable[[str], None]:
        """A line whose text is given later, or stays empty."""
        place, depth = len(self._lines), self._depth
        self._lines.append("")

        def fill(text: str) -> None:
            self._lines[place] = f"{' ' * depth}{text}"

        return fill

    @contextmanager
    def block(self, head: str | None) -> Iterator[None]:
        """Indent what is written inside."""
        if head is not None:
            self.line(head)
        self._depth += 1
        try:
            yield
            self.line("pass")
        finally:
            self._depth -= 1

    def function(self, head: str) -> Callable[..., str]:
        """Everything that was written, as a function."""
        tree = ast.parse("\n".join([f"{head}:", *self._lines]))
        tree = _Fill(self._constants).visit(tree)
        (code,) = (one for one in compile(tree, "<template>", "exec").co_consts if hasattr(one, "co_code"))
        return FunctionType(code, self._globals)


class _Fill(ast.NodeTransformer):
    """Puts the constants in their places, and makes a text with places of each JOIN."""

    def __init__(self, constants: Mapping[str, str | int | float]) -> None:
        self._constants = constants

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self._constants:
            return ast.copy_location(ast.Constant(self._constants[node.id]), node)
        return node

    def visit_Call(self, node: ast.Call) -> Any:  # noqa: ANN401 - the library's own
        filled = self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == JOIN:
            return ast.copy_location(ast.JoinedStr([_place(one) for one in node.args]), node)
        return filled


def _place(value: ast.expr) -> ast.expr:
    is_text = isinstance(value, ast.Constant) and isinstance(value.value, str)
    return value if is_text else ast.copy_location(ast.FormattedValue(value, conversion=-1), value)
