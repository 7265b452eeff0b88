"""Trees: copies of this checkout, one as it is and one for each mutant, in which patches are applied and tests run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
PARTS = ("bench", "channels", "dispatcher", "tests", "ops", "pyproject.toml")
# For all tests together; one takes seconds.
TESTS_SECONDS_MAX = 900.0


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


def apply(patch: Path, tree: Path, *options: str) -> str:
    """Apply a patch to a tree; answers what went wrong, or nothing."""
    # Without a repository above it: git would take the paths for that one's.
    environment = os.environ | {"GIT_CEILING_DIRECTORIES": str(tree.parent)}
    command = ["git", "apply", "--whitespace=nowarn", *options, str(patch)]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else ""


def patched_with_fuzz(patch: Path, tree: Path) -> str:
    """As `apply`, where the lines around the change have changed too."""
    command = ["patch", "--strip=1", "--fuzz=3", "--no-backup-if-mismatch", "--input", str(patch)]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip() if done.returncode else ""


def difference(before: Path, after: Path) -> str:
    """What makes one tree the other, with little context so that it lives long."""
    folder = before.parent
    command = ["git", "diff", "--no-index", "--unified=2", "--no-color", "--no-prefix", before.name, after.name]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if not line.startswith(("diff --git", "index "))]
    heads = {f"--- {before.name}/": "--- a/", f"+++ {after.name}/": "+++ b/"}
    for old, new in heads.items():
        lines = [new + line.removeprefix(old) if line.startswith(old) else line for line in lines]
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
