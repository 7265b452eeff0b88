"""Trees: copies of this checkout, one as it is and one for each mutant, in which patches are applied and tests run."""

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).parents[3]
PARTS = ("bench", "channels", "dispatcher", "tests", "ops", "pyproject.toml")
# Where the program's sources are; a patch changes nothing else.
SOURCES = ("channels", "dispatcher")
# For all tests together; one takes seconds.
TESTS_SECONDS_MAX = 900.0
CONTEXT_LINES = 2
# A hunk whose text occurs more than once gets more lines around it, up to this number.
CONTEXT_LINES_MAX = 30
_FILE_HEAD = re.compile(r"^--- .*\n\+\+\+ .*\n", re.MULTILINE)
_HUNK_HEAD = re.compile(r"^@@.*\n", re.MULTILINE)
_NUMBERS = re.compile(r"^@@ -\S+ \+\S+ @@( ?$)?")


class Hunk(Struct, frozen=True):
    """One place that a patch changes. It names no file and no line: its text says where it belongs."""

    lines: tuple[str, ...]

    @property
    def before(self) -> str:
        """The text that the hunk replaces."""
        return "".join(f"{line[1:]}\n" for line in self.lines if line[:1] != "+")

    @property
    def after(self) -> str:
        """The text that it is replaced by."""
        return "".join(f"{line[1:]}\n" for line in self.lines if line[:1] != "-")

    def without_context(self, number: int) -> "Hunk":
        """Return the hunk with that many lines less around it, as far as they are unchanged."""
        lines = list(self.lines)
        for _ in range(number):
            if lines[0][:1] == " ":
                del lines[0]
            if lines[-1][:1] == " ":
                del lines[-1]
        return Hunk(tuple(lines))


def hunks(patch: Path) -> list[Hunk]:
    """Return the hunks of a patch, of all its files."""
    return [
        Hunk(tuple(line or " " for line in text.splitlines()))
        for file in _FILE_HEAD.split(patch.read_text())[1:]
        for text in _HUNK_HEAD.split(file)[1:]
    ]


def places(hunk: Hunk, tree: Path) -> list[Path]:
    """Return the source files that have a hunk's text, a file once for each time."""
    wanted = f"\n{hunk.before}"
    found: list[Path] = []
    for path, text in (_checkout() if tree == ROOT else _texts(tree)).items():
        found += [path] * text.count(wanted)
    return found


def _texts(tree: Path) -> dict[Path, str]:
    return {path: f"\n{path.read_text()}" for path in sources(tree)}


@cache
def _checkout() -> dict[Path, str]:
    """This checkout, which no patch changes: a hundred patches look for their places in it."""
    return _texts(ROOT)


def sources(tree: Path) -> list[Path]:
    """Return the files that a patch may change."""
    return sorted(path for part in SOURCES for kind in ("py", "sql") for path in (tree / part).rglob(f"*.{kind}"))


def copy(into: Path) -> Path:
    """This checkout as it is now, but for the patches, which say nothing about each other."""
    skipped = shutil.ignore_patterns("__pycache__", ".*_cache", "*.patch")
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, into / part, ignore=skipped, symlinks=True)
        elif source.exists():
            shutil.copy2(source, into / part)
    return into


def trouble(patch: Path, tree: Path) -> str:
    """Return why a patch cannot be applied to a tree, or nothing: each hunk has to match exactly one place."""
    wrong = [(hunk, places(hunk, tree)) for hunk in hunks(patch)]
    return "\n".join(
        f"{len(found)} places have this text, not 1: {', '.join(map(str, found))}\n{hunk.before}"
        for hunk, found in wrong
        if len(found) != 1
    )


def apply(patch: Path, tree: Path, fuzz: int = 0) -> str:
    """Apply a patch to a tree and return what went wrong, or nothing; with fuzz, its outermost lines may differ."""
    for hunk in hunks(patch):
        shorter = [hunk.without_context(number) for number in range(fuzz + 1)]
        chosen = next((one for one in shorter if len(places(one, tree)) == 1), None)
        if chosen is None:
            return trouble(patch, tree) or f"a hunk does not match beside the others:\n{hunk.before}"
        [path] = places(chosen, tree)
        path.write_text(f"\n{path.read_text()}".replace(f"\n{chosen.before}", f"\n{chosen.after}", 1)[1:])
    return ""


def test_file(name: str) -> Path:
    """Return the file of the one test with a name; its parameters may follow in brackets."""
    head = f"def {name.partition('[')[0]}("
    found = [path for path in sorted((ROOT / "tests").rglob("test_*.py")) if head in path.read_text()]
    if len(found) != 1:
        raise ValueError(f"{len(found)} files have a test {name}, not 1: {', '.join(map(str, found))}")
    return found[0].relative_to(ROOT)


def difference(before: Path, after: Path) -> str:
    """Return what makes one tree the other, with as little context as tells each place from all others."""
    text = ""
    for context in range(CONTEXT_LINES, CONTEXT_LINES_MAX):
        text = _difference(before, after, context)
        changed = [Hunk(tuple(part.splitlines())) for part in _HUNK_HEAD.split(_FILE_HEAD.sub("", text))[1:]]
        if all(len(places(hunk, before)) == 1 for hunk in changed):
            break
    return text


def _difference(before: Path, after: Path, context: int) -> str:
    command = [
        "git",
        "diff",
        "--no-index",
        f"--unified={context}",
        "--no-color",
        "--no-prefix",
        before.name,
        after.name,
    ]
    done = subprocess.run(command, cwd=before.parent, capture_output=True, text=True, check=False)
    heads = {f"--- {before.name}/": "--- a", f"+++ {after.name}/": "+++ b"}
    lines: list[str] = []
    for line in done.stdout.splitlines():
        if not line.startswith(("diff --git", "index ")):
            head = next((new for old, new in heads.items() if line.startswith(old)), None)
            lines.append(head or _NUMBERS.sub("@@ ", line))
    return "".join(f"{line}\n" for line in lines)


def pytest(tree: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run tests in a tree, with the interpreter that runs us: its packages, the tree's sources."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    return subprocess.run(
        command,
        cwd=tree,
        env=environment | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=TESTS_SECONDS_MAX,
        check=False,
    )
