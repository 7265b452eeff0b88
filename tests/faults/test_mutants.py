"""The mutants in the suite: each patch matches one place and names one test; two are tried from end to end."""

from pathlib import Path

import pytest

from tests.faults.mutants import tree
from tests.faults.mutants.__main__ import CHOSEN, chosen_by, try_out
from tests.faults.mutants.mutant import Mutant, mutants

MUTANTS = {mutant.name: mutant for mutant in mutants()}
QUICK = ("unknown_is_refused", "licence_counts_from_after_the_mark")
MUTANTS_MIN = 16


def test_there_are_enough_of_them() -> None:
    assert len(MUTANTS) >= MUTANTS_MIN


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_its_patch_applies(mutant: Mutant) -> None:
    assert not tree.trouble(mutant.path, tree.ROOT), "python -m tests.faults.mutants --refresh"


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_the_test_that_catches_it_exists(mutant: Mutant) -> None:
    tree.test_file(mutant.test)


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


def test_a_commit_chooses_always_the_same_and_in_time_all() -> None:
    assert chosen_by("c0ffee", MUTANTS) == chosen_by("c0ffee", reversed(MUTANTS))
    chosen = [chosen_by(f"commit {number}", MUTANTS) for number in range(300)]
    assert {len(set(names)) for names in chosen} == {CHOSEN}
    assert {name for names in chosen for name in names} == MUTANTS.keys()


@pytest.mark.parametrize("name", QUICK)
def test_it_is_caught(name: str, tmp_path: Path) -> None:
    verdict = try_out(MUTANTS[name], tmp_path)
    assert verdict.caught, verdict
