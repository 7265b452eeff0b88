"""An exemption from a tool names its code and its reason on its line, and nothing is left for later."""

import io
import re
import tokenize

import pytest

from tests.house.tree import ROOT, ours, python_files

FOLDERS = ("bench", "channels", "dispatcher", "ops", "tests")

# Code and reason, each in the form that its tool takes; ruff's may speak for a whole file.
EXEMPTION = re.compile(r"#\s*(?:type:\s*ignore|noqa|ruff:|mypy:|fmt:|isort:|pyright:|pragma:)", re.IGNORECASE)
NOQA = re.compile(r"# (?:ruff: )?noqa: [A-Z]+\d+(?:, [A-Z]+\d+)* - \S.*")
TYPE_IGNORE = re.compile(r"# type: ignore\[[a-z-]+(?:, [a-z-]+)*\] {1,2}# (?!noqa)\S.*")

# In pieces, so that this file does not accuse itself.
LATER = re.compile(r"\b(?:" + "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3, "HA" + "CK")) + r")\b")
TEXTS = {"", ".conf", ".css", ".html", ".js", ".json", ".md", ".py", ".sh", ".sql", ".toml", ".txt", ".yaml", ".yml"}


def comments(source: str) -> list[str]:
    """The comments of a source, and not what looks like one inside a string."""
    return [t.string for t in tokenize.generate_tokens(io.StringIO(source).readline) if t.type == tokenize.COMMENT]


def is_bare(comment: str) -> bool:
    """True for an exemption without a code or a reason."""
    if not EXEMPTION.search(comment):
        return False
    return not (NOQA.fullmatch(comment) or TYPE_IGNORE.fullmatch(comment))


def test_every_exemption_has_a_code_and_a_reason() -> None:
    bare = [
        f"{path}: {comment}"
        for path in python_files(FOLDERS)
        # Taking a file to pieces takes a hundred times as long as searching it.
        if EXEMPTION.search(source := (ROOT / path).read_text())
        for comment in comments(source)
        if is_bare(comment)
    ]
    assert not bare, bare


def test_nothing_is_left_for_later() -> None:
    left = [
        f"{path}:{number}"
        for path in ours()
        if path.suffix in TEXTS
        for number, line in enumerate((ROOT / path).read_text().splitlines(), start=1)
        if LATER.search(line)
    ]
    assert not left, left


@pytest.mark.parametrize(
    ("comment", "bare"),
    [
        ("# noqa: S101 - the reason", False),
        ("# noqa: S101, PLR2004 - the reason", False),
        ("# noqa: S101", True),
        ("# noqa: S101 -", True),
        ("# noqa", True),
        ("# ruff: noqa: S101 - the reason", False),
        ("# ruff: noqa", True),
        ("# type: ignore[arg-type]  # the reason", False),
        ("# type: ignore[arg-type]", True),
        ("# type: ignore[arg-type]  # noqa: S101", True),
        ("# type: ignore", True),
        ("# mypy: ignore-errors", True),
        ("# an ordinary comment", False),
    ],
)
def test_an_exemption_without_a_reason_is_bare(comment: str, bare: bool) -> None:
    assert is_bare(comment) is bare
