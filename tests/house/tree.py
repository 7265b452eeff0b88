"""The files of this checkout, as the house rules see them."""

import subprocess
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def project() -> dict[str, Any]:
    """The content of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def ours() -> list[Path]:
    """Every file that is committed, or would be: what git ignores is nobody's. Paths are relative to the root."""
    if not (ROOT / ".git").exists():
        pytest.skip("expected: not a git checkout, so what is ours is unknown")
    # CI services mount a checkout that belongs to another user, which git distrusts until it is told otherwise.
    git = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(git, cwd=ROOT, capture_output=True, check=True)
    paths = {Path(name) for name in listed.stdout.decode().split("\0") if name}
    return sorted(path for path in paths if (ROOT / path).is_file())


def python_files(folders: Iterable[str]) -> list[Path]:
    """The Python among ours below these folders: by its suffix, or as a script by its first line."""
    return [path for path in ours() if path.parts[0] in folders and _is_python(ROOT / path)]


def _is_python(path: Path) -> bool:
    if path.suffix == ".py":
        return True
    with path.open("rb") as file:
        first = file.readline(200)
    return first.startswith(b"#!") and b"python" in first
