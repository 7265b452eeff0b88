"""The mutants in the suite: each patch still applies and names a test that exists; two are tried from end to end."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.mutants import tree
from tests.faults.mutants.__main__ import CHOSEN, chosen_by, try_out
from tests.faults.mutants.mutant import Mutant, mutants

MUTANTS = {mutant.name: mutant for mutant in mutants()}
QUICK = ("unknown_is_refused", "licence_counts_from_after_the_mark")
MUTANTS_MIN = 16
MIGRATIONS = "dispatcher/store/migrations/"
_MADE = re.compile(r"CREATE (?:OR REPLACE )?(FUNCTION|PROCEDURE|VIEW|TRIGGER) (?:dispatcher\.)?([a-z0-9_]+)[ (]")
_VERSION = re.compile(r"(?<=_v)[0-9]+$")
_HUNK = re.compile(r"@@ -([0-9]+)")


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
    path, number, looking = "", 0, False
    for line in mutant.path.read_text().splitlines():
        if line.startswith("--- a/"):
            path = line.removeprefix("--- a/")
        elif found := _HUNK.match(line):
            number, looking = int(found[1]), True
        elif looking and line[:1] in "+-":
            looking = False
            yield path, number
        else:
            number += 1


def test_there_are_enough_of_them() -> None:
    assert len(MUTANTS) >= MUTANTS_MIN


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_its_patch_applies(mutant: Mutant) -> None:
    assert not tree.apply(mutant.path, tree.ROOT, "--check"), "python -m tests.faults.mutants --refresh"


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_the_test_that_catches_it_exists(mutant: Mutant) -> None:
    path, _, name = mutant.test.partition("::")
    assert f"def {name.partition('[')[0]}(" in (tree.ROOT / path).read_text()


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_what_it_breaks_is_in_force(mutant: Mutant) -> None:
    """What a later migration has made anew can be broken in the old one, and nothing is caught."""
    for path, line in _broken(mutant):
        if path.startswith(MIGRATIONS) and (before := _made(tree.ROOT / path, line)):
            later = [one for one in sorted((tree.ROOT / MIGRATIONS).glob("*.sql")) if one.name > Path(path).name]
            assert _is_in_force(*before[-1], later), before[-1]


def test_a_commit_chooses_always_the_same_and_in_time_all() -> None:
    assert chosen_by("c0ffee", MUTANTS) == chosen_by("c0ffee", reversed(MUTANTS))
    chosen = [chosen_by(f"commit {number}", MUTANTS) for number in range(300)]
    assert {len(set(names)) for names in chosen} == {CHOSEN}
    assert {name for names in chosen for name in names} == MUTANTS.keys()


@pytest.mark.parametrize("name", QUICK)
def test_it_is_caught(name: str, tmp_path: Path) -> None:
    verdict = try_out(MUTANTS[name], tmp_path)
    assert verdict.caught, verdict
