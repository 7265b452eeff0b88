"""Persons: by which addresses somebody is known, and how to tell that a text speaks of them."""

import json
import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from dispatcher.domain.addresses import Address, forms

# Of one person, as they may be named at once; contacts have fewer.
ADDRESSES_MAX = 100

# Before and behind an address in a text that speaks of it; as JSON is written, a line may end or a tab stand there.
_BEFORE = r"(?:^|\\[nrtbf]|[^a-z0-9._%+\\-])"
_BEHIND = r"(?![a-z0-9_-]|\.[a-z0-9])"


class Person(Struct, frozen=True):
    """Somebody, as far as addresses tell."""

    addresses: Sequence[Address]

    @property
    def forms(self) -> list[str]:
        """How their addresses may stand in a delivery, but for punctuation and the like."""
        return list(dict.fromkeys(form for one in self.addresses for form in forms(one)))

    @property
    def terms(self) -> list[str]:
        """What stands in any text of JSON that speaks of them, in small letters."""
        return [json.dumps(form.lower(), ensure_ascii=False)[1:-1] for form in self.forms]

    @property
    def pattern(self) -> str:
        """What matches texts, in small letters, that have one of the terms, and not as a part of another address."""
        return f"{_BEFORE}(?:{'|'.join(map(re.escape, self.terms))}){_BEHIND}"


def of(addresses: Iterable[Address]) -> Person:
    """The person behind some addresses."""
    return Person(list(dict.fromkeys(addresses)))
