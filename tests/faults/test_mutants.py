"""The mutants in the suite: each patch matches one place and names one test; two are tried from end to end."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.mutants import tree
from tests.faults.mutants.__main__ import try_out
from tests.faults.mutants.mutant import Mutant, mutants

MUTANTS = {mutant.name: mutant for mutant in mutants()}
QUICK = ("unknown_is_refused", "licence_counts_from_after_the_mark")
MUTANTS_MIN = 16
MIGRATIONS = "dispatcher/store/migrations/"
_MADE = re.compile(r"CREATE (?:OR REPLACE )?(FUNCTION|PROCEDURE|VIEW|TRIGGER) (?:dispatcher\.)?([a-z0-9_]+)[ (]")
_VERSION = re.compile(r"(?<=_v)[0-9]+$")


def _made(path: Path, last: int = 2**31) -> list[tuple[str, str]]:
    """What a migration makes up to a line."""
    lines = path.read_text().splitlines()[:last]
    return [(found[1], found[2]) for found in map(_MADE.match, lines) if found]


def _is_in_force(kind: str, name: str, later: list[Path]) -> bool:
    """Whether no later migration makes it anew, perhaps as another version, which does not call it."""
    anew = {(other, _VERSION.sub("", made)) for path in later for other, made in _made(path)}
    called = re.compile(rf"(?<!FUNCTION )dispatcher\.{name}\(")
    return (kind, _VERSION.sub("", name)) not in anew or any(called.search(path.read_text()) for path in later)


def _broken(mutant: Mutant) -> Iterator[tuple[str, int]]:
    """The files and lines that a patch changes first, hunk by hunk."""
    for hunk in tree.hunks(mutant.path):
        [path] = tree.places(hunk, tree.ROOT)
        first = next(number for number, line in enumerate(hunk.lines) if line[:1] in "+-")
        before = path.read_text().partition(hunk.before)[0]
        yield str(path.relative_to(tree.ROOT)), before.count("\n") + first


def test_there_are_enough_of_them() -> None:
    assert len(MUTANTS) >= MUTANTS_MIN


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_its_patch_applies(mutant: Mutant) -> None:
    assert not tree.trouble(mutant.path, tree.ROOT), "python -m tests.faults.mutants --refresh"


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_the_test_that_catches_it_exists(mutant: Mutant) -> None:
    tree.test_file(mutant.test)


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_what_it_breaks_is_in_force(mutant: Mutant) -> None:
    """What a later migration has made anew can be broken in the old one, and nothing is caught."""
    for path, line in _broken(mutant):
        if path.startswith(MIGRATIONS) and (before := _made(tree.ROOT / path, line)):
            later = [one for one in sorted((tree.ROOT / MIGRATIONS).glob("*.sql")) if one.name > Path(path).name]
            assert _is_in_force(*before[-1], later), before[-1]


PATCH = "--- a\n+++ b\n@@ def first() -> int:\n def first() -> int:\n-    return 1\n+    return 2\n"


def _sources(folder: Path, **texts: str) -> Path:
    (folder / "dispatcher").mkdir()
    for name, text in texts.items():
        (folder / "dispatcher" / f"{name}.py").write_text(text)
    return folder


def test_a_patch_finds_its_place_by_its_text(tmp_path: Path) -> None:
    sources = _sources(tmp_path, one="def first() -> int:\n    return 1\n", two="def other() -> int:\n    return 1\n")
    (patch := tmp_path / "some.patch").write_text(PATCH)
    assert not tree.apply(patch, sources)
    assert (sources / "dispatcher/one.py").read_text() == "def first() -> int:\n    return 2\n"


def test_a_patch_that_matches_two_places_is_refused(tmp_path: Path) -> None:
    text = "def first() -> int:\n    return 1\n"
    sources = _sources(tmp_path, one=text, two=text)
    (patch := tmp_path / "some.patch").write_text(PATCH)
    assert "2 places" in tree.apply(patch, sources)
    assert (sources / "dispatcher/one.py").read_text() == text


@pytest.mark.parametrize("name", QUICK)
def test_it_is_caught(name: str, tmp_path: Path) -> None:
    verdict = try_out(MUTANTS[name], tmp_path)
    assert verdict.caught, verdict
