"""The top level is the first thing that a reader sees: only what is listed here belongs there."""

from tests.house.tree import ours

ALLOWED = {
    ".ci",
    ".dockerignore",
    ".editorconfig",
    ".gitattributes",
    ".github",
    ".gitignore",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Dockerfile",
    "LICENSE",
    "README.md",
    "bench",
    "channels",
    "dispatcher",
    "ops",
    "pyproject.toml",
    "requirements-dev.lock",
    "requirements.lock",
    "tests",
}


def test_nothing_strange_lies_at_the_top_level() -> None:
    strange = sorted({path.parts[0] for path in ours()} - ALLOWED)
    assert not strange, strange
