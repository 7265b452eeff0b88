"""A mutant: a deliberate fault as a patch, with a sentence of what it breaks and the test that must go red."""

import re
from pathlib import Path

from msgspec import Struct

FOLDER = Path(__file__).parent
_HEAD = re.compile(r"\ABreaks: (?P<breaks>.+)\nCaught by: (?P<test>\S+)\n\n")


class Mutant(Struct, frozen=True):
    """One patch. Its first two lines say what it breaks, and the name of the test function that catches it."""

    path: Path
    breaks: str
    test: str

    @property
    def name(self) -> str:
        """Its name on the command line."""
        return self.path.stem

    @property
    def head(self) -> str:
        """The lines before the difference."""
        return f"Breaks: {self.breaks}\nCaught by: {self.test}\n\n"

    @classmethod
    def read(cls, path: Path) -> "Mutant":
        """A patch as it stands in its file."""
        found = _HEAD.match(path.read_text())
        if found is None:
            raise ValueError(f"{path.name} does not begin with its two lines, `Breaks:` and `Caught by:`")
        return cls(path, found["breaks"], found["test"])


def mutants() -> list[Mutant]:
    """All of them, by name."""
    return [Mutant.read(path) for path in sorted(FOLDER.glob("*.patch"))]
