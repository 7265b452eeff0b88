"""Persons: by which addresses somebody is known, and how to tell that a text speaks of them."""

import json
import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from dispatcher.base.values.addresses import Address, forms

# Of one person, as they may be named at once; contacts have fewer.
ADDRESSES_MAX = 100

# Before and behind an address in a text that speaks of it; as JSON is written, a line may end or a tab stand there.
_BEFORE = r"(?:^|\\[nrtbf]|[^a-z0-9._%+\\-])"
_BEHIND = r"(?![a-z0-9_-]|\.[a-z0-9])"
# What people write between the digits of a number.
_BETWEEN = r"(?:[ ()./\u00a0-]|\(0\))*"
_NUMBERS_BEGIN = ("+", "00")


class Person(Struct, frozen=True):
    """Somebody, as far as addresses tell."""

    addresses: Sequence[Address]

    @property
    def forms(self) -> list[str]:
        """How their addresses may stand in a delivery, but for punctuation and the like."""
        return list(dict.fromkeys(form for one in self.addresses for form in forms(one)))

    @property
    def terms(self) -> list[str]:
        """One of these stands in any text of JSON, in small letters, that matches the pattern: a quick look first."""
        found = (_NUMBERS_BEGIN if one.kind == "phone" else map(_json, forms(one)) for one in self.addresses)
        return list(dict.fromkeys(term for terms in found for term in terms))

    @property
    def pattern(self) -> str:
        """What matches texts, in small letters, that have one of their addresses, and not as a part of another one."""
        written = [re.escape(_json(form)) for form in self.forms]
        spaced = [
            rf"(?:\+|00){_BETWEEN}{_BETWEEN.join(one.text[1:])}(?!{_BETWEEN}[0-9])"
            for one in self.addresses
            if one.kind == "phone"
        ]
        return f"{_BEFORE}(?:{'|'.join(written + spaced)}){_BEHIND}"


def _json(form: str) -> str:
    """As it stands in JSON, in small letters."""
    return json.dumps(form.lower(), ensure_ascii=False)[1:-1]


def of(addresses: Iterable[Address]) -> Person:
    """The person behind some addresses."""
    return Person(list(dict.fromkeys(addresses)))
