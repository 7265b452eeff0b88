"""The mutants in the suite: each patch still applies and names a test that exists; two are tried from end to end."""

from pathlib import Path

import pytest

from tests.faults.mutants import tree
from tests.faults.mutants.__main__ import try_out
from tests.faults.mutants.mutant import Mutant, mutants

MUTANTS = {mutant.name: mutant for mutant in mutants()}
QUICK = ("unknown_is_refused", "licence_counts_from_after_the_mark")
MUTANTS_MIN = 16


def test_there_are_enough_of_them() -> None:
    assert len(MUTANTS) >= MUTANTS_MIN


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_its_patch_applies(mutant: Mutant) -> None:
    assert not tree.apply(mutant.path, tree.ROOT, "--check"), "python -m tests.faults.mutants --refresh"


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_the_test_that_catches_it_exists(mutant: Mutant) -> None:
    path, _, name = mutant.test.partition("::")
    assert f"def {name.partition('[')[0]}(" in (tree.ROOT / path).read_text()


@pytest.mark.parametrize("name", QUICK)
def test_it_is_caught(name: str, tmp_path: Path) -> None:
    verdict = try_out(MUTANTS[name], tmp_path)
    assert verdict.caught, verdict
