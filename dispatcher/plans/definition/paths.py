"""The places in a definition, as JSON paths, and the faults that were found there."""

import json
import re
from collections.abc import Iterable

from dispatcher.base.errors import SHOWN_CHARACTERS_MAX, Fault, did_you_mean

ROOT = "$"
# For the first HINTS_MAX the nearest word is looked up, which takes a thousand comparisons.
FAULTS_MAX = 1_000
HINTS_MAX = 50

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,59}")


def inside(place: str, key: str | int) -> str:
    """One step down: a field, or an item of a list."""
    if isinstance(key, int):
        return f"{place}[{key}]"
    return f"{place}.{key}" if _BARE.fullmatch(key) else f"{place}[{json.dumps(key[:SHOWN_CHARACTERS_MAX])}]"


class Faults:
    """The faults that were found so far. A spoilt place gets no second fault."""

    def __init__(self) -> None:
        self.found: list[Fault] = []
        self._spoilt: set[str] = set()

    def add(self, place: str, words: str) -> None:
        """Report a fault at a place."""
        if place in self._spoilt or len(self.found) > FAULTS_MAX:
            return
        more = len(self.found) == FAULTS_MAX
        self.found.append(Fault(ROOT, f"has more than these {FAULTS_MAX} faults") if more else Fault(place, words))

    def spoil(self, place: str, words: str) -> None:
        """Report a value that is not JSON, or not a text: any other fault there follows from that."""
        self.add(place, words)
        self._spoilt.add(place)

    def near(self, word: object, known: Iterable[str]) -> str:
        """The end of a fault: the known word that is nearest."""
        return did_you_mean(word, known) if len(self.found) < HINTS_MAX else ""
