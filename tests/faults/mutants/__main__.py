"""The mutants' command: `python -m tests.faults.mutants [NAME…]` shows for each which test catches it.

Exit code 1 when one survives, when its test is red without it too, or when a patch does not match exactly one place;
`--refresh` writes the patches anew where fewer lines around the change still match one.
"""

import argparse
import hashlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from tests.faults.mutants import tree
from tests.faults.mutants.mutant import Mutant, mutants

# What pytest answers when tests have failed; anything else is no verdict on the mutant.
RED = 1
# How many a run of CI tries: about a minute.
CHOSEN = 6


class Verdict(Struct, frozen=True):
    """The result of a mutant."""

    mutant: Mutant
    outcome: str
    seconds: float
    # What the test said, so that nobody takes a typing error for a catch.
    why: str = ""

    @property
    def caught(self) -> bool:
        """Whether its test did its work."""
        return self.outcome == "caught"


def try_out(mutant: Mutant, folder: Path) -> Verdict:
    """Apply one to a copy of its own and run its test there."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(dir=folder, prefix=f"{mutant.name}-") as place:
        copy = tree.copy(Path(place))
        trouble = tree.apply(mutant.path, copy)
        outcome, why = ("APPLIES NO MORE", trouble) if trouble else _outcome(copy, mutant.test)
    return Verdict(mutant, outcome, time.monotonic() - started, why)


def _outcome(copy: Path, test: str) -> tuple[str, str]:
    try:
        done = tree.pytest(copy, "-x", "--tb=short", address(test))
    except subprocess.TimeoutExpired:
        return "TOO SLOW", ""
    why = next((line for line in done.stdout.splitlines() if line.startswith("E  ")), "E")[1:].strip()
    # A test that could not even begin has not failed.
    if done.returncode == RED and "\nFAILED " in done.stdout:
        return "caught", why
    return ("SURVIVED", "") if done.returncode == 0 else ("NO VERDICT", why)


def address(test: str) -> str:
    """Return where pytest finds a test that is known by its name."""
    return f"{tree.test_file(test)}::{test}"


def red_without(chosen: Sequence[Mutant], folder: Path) -> str:
    """Run their tests on a copy without any fault: what is red there catches nothing. Answers pytest's words."""
    done = tree.pytest(tree.copy(folder / "sane"), *sorted({address(mutant.test) for mutant in chosen}))
    return done.stdout if done.returncode else ""


def refresh(chosen: Sequence[Mutant]) -> list[str]:
    """Write patches anew whose surroundings have changed; answers those that are beyond that."""
    lost: list[str] = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        before = tree.copy(Path(folder) / "before")
        for mutant in chosen:
            after = tree.copy(Path(folder) / mutant.name)
            if tree.apply(mutant.path, after, tree.CONTEXT_LINES_MAX):
                lost.append(mutant.name)
                continue
            mutant.path.write_text(mutant.head + tree.difference(before, after))
    return lost


def chosen_by(commit: str, names: Iterable[str]) -> list[str]:
    """Return the mutants that a commit tries: always the same for one commit, others for the next."""
    return sorted(names, key=lambda name: hashlib.sha256(f"{commit} {name}".encode()).digest())[:CHOSEN]


def _line(verdict: Verdict) -> str:
    found = f"{verdict.mutant.name:38} {verdict.outcome:10} {verdict.seconds:5.1f} s  {verdict.mutant.test}"
    return f"{found}\n{'':38} {verdict.why[:120]}"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """Try all of them, or those that are named."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="these only")
    parser.add_argument("--list", action="store_true", help="say what each breaks, and try none")
    parser.add_argument("--refresh", action="store_true", help="write the patches anew, and try none")
    parser.add_argument("--chosen-by", metavar="COMMIT", help=f"only the {CHOSEN} that the hash of a commit chooses")
    asked = parser.parse_args()
    known = {mutant.name: mutant for mutant in mutants()}
    if unknown := set(asked.names) - set(known):
        parser.error(f"no such mutant: {', '.join(sorted(unknown))}")
    names = chosen_by(asked.chosen_by, known) if asked.chosen_by else asked.names or known
    chosen = [known[name] for name in names]
    if asked.list:
        for mutant in chosen:
            _say(f"{mutant.name:38} {mutant.breaks}")
        return 0
    if asked.refresh:
        lost = refresh(chosen)
        _say(f"{len(chosen) - len(lost)} written anew" + (f"; write by hand: {', '.join(lost)}" if lost else ""))
        return 1 if lost else 0
    return _try_all(chosen)


def _try_all(chosen: Sequence[Mutant]) -> int:
    escaped = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        if red := red_without(chosen, Path(folder)):
            _say(f"{red}\nWithout any mutant these tests are red; what they catch says nothing.")
            return 1
        for mutant in chosen:
            verdict = try_out(mutant, Path(folder))
            escaped += not verdict.caught
            _say(_line(verdict))
    _say(f"{len(chosen) - escaped} of {len(chosen)} caught")
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(main())
