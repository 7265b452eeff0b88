"""The distribution of the client names each module that the client imports, and no other."""

import ast
import tomllib
from pathlib import Path

from tests.house.tree import ROOT

PROJECT = ROOT / "ops" / "client" / "pyproject.toml"
CLIENT = "dispatcher.client"


def file_of(module: str) -> Path | None:
    """The file of a module of ours that is no package."""
    path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    return path if path.is_file() else None


def imported(path: Path) -> set[str]:
    """The modules of ours that a file imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
    return {module for module in found if module.split(".")[0] == "dispatcher" and file_of(module)}


def beside_the_client() -> set[str]:
    """What the client imports outside its own package, and what that imports."""
    waiting = list((ROOT / "dispatcher" / "client").rglob("*.py"))
    found: set[str] = set()
    while waiting:
        further = {module for module in imported(waiting.pop()) if not module.startswith(f"{CLIENT}.")} - found
        found |= further
        waiting += [path for module in further if (path := file_of(module))]
    return found


def test_the_modules_that_the_client_imports_are_named() -> None:
    named = tomllib.loads(PROJECT.read_text())["tool"]["setuptools"]["py-modules"]
    assert sorted(beside_the_client()) == sorted(named), f"py-modules of {PROJECT.relative_to(ROOT)}"


def test_folders_of_the_client_are_named() -> None:
    named = tomllib.loads(PROJECT.read_text())["tool"]["setuptools"]["packages"]
    folders = {path.parent for path in (ROOT / "dispatcher" / "client").rglob("*") if path.suffix in {".py", ".sql"}}
    assert sorted(".".join(folder.relative_to(ROOT).parts) for folder in folders) == sorted(named)
