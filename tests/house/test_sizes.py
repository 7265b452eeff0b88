"""A ratchet on sizes: what is over a limit is listed with its number, and the number may only shrink."""

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.house.tree import ROOT, python_files

FOLDERS = ("bench", "channels", "dispatcher", "ops")
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60

# "path" or "path::Class.function" -> (its lines, why it is not cut in two).
OVER: dict[str, tuple[int, str]] = {}


def functions(tree: ast.AST, inside: str = "") -> dict[str, int]:
    """The lines of each function, from `def` to its last statement, by its qualified name."""
    found: dict[str, int] = {}
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{inside}{node.name}"
            if not isinstance(node, ast.ClassDef):
                found[name] = (node.end_lineno or node.lineno) - node.lineno + 1
            found |= functions(node, f"{name}.")
        else:
            found |= functions(node, inside)
    return found


@cache
def parsed() -> dict[Path, tuple[int, ast.Module]]:
    """The lines of each file, and its syntax tree."""
    texts = {path: (ROOT / path).read_text() for path in python_files(FOLDERS)}
    return {path: (len(text.splitlines()), ast.parse(text)) for path, text in texts.items()}


@cache
def measured() -> dict[str, int]:
    """Everything that is over its limit, with its lines."""
    over = {str(path): lines for path, (lines, _) in parsed().items() if lines > FILE_LINES_MAX}
    for path, (_, tree) in parsed().items():
        over |= {f"{path}::{name}": n for name, n in functions(tree).items() if n > FUNCTION_LINES_MAX}
    return over


def test_nothing_new_is_over_its_limit_and_nothing_listed_grew() -> None:
    grown = {name: lines for name, lines in measured().items() if lines > OVER.get(name, (0, ""))[0]}
    assert not grown, f"files over {FILE_LINES_MAX} or functions over {FUNCTION_LINES_MAX} lines: {grown}"


def test_the_size_list_shrinks_with_its_files() -> None:
    now = measured()
    stale = {
        name: now.get(name, "fits now: take it off") for name, (lines, _) in OVER.items() if now.get(name) != lines
    }
    assert not stale, stale


def test_every_entry_has_a_reason() -> None:
    assert all(reason.strip() for _, reason in OVER.values())


def test_every_file_begins_with_its_purpose() -> None:
    silent = [str(path) for path, (_, tree) in parsed().items() if not ast.get_docstring(tree)]
    assert not silent, f"without a docstring at the top: {silent}"


@pytest.mark.parametrize(
    "source", ["def f():\n    x = 1\n    return x", "class C:\n    async def f(self):\n        a\n        b"]
)
def test_a_function_is_measured_from_its_def_to_its_last_line(source: str) -> None:
    assert list(functions(ast.parse(source)).values()) == [3]
