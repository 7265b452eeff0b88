"""Persons: their addresses, and the pattern that finds those in a text."""

import json
import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from dispatcher.base.values.addresses import Address, forms

# Of one person in one request; contacts have fewer.
ADDRESSES_MAX = 100

# Before and after an address in a text, also as JSON escapes it (a line may end or a tab stand there).
_BEFORE = r"(?:^|\\[nrtbf]|[^a-z0-9._%+\\-])"
_AFTER = r"(?![a-z0-9_-]|\.[a-z0-9])"
# What people write between the digits of a number.
_BETWEEN = r"(?:[ ()./\u00a0-]|\(0\))*"
_NUMBERS_BEGIN = ("+", "00")


class Person(Struct, frozen=True):
    """The addresses of a person."""

    addresses: Sequence[Address]

    @property
    def forms(self) -> list[str]:
        """The ways in which the addresses may be written in a delivery, except for punctuation."""
        return list(dict.fromkeys(form for one in self.addresses for form in forms(one)))

    @property
    def terms(self) -> list[str]:
        """Terms of which one is in any lower-case JSON text that matches the pattern: a cheap first test."""
        found = (_NUMBERS_BEGIN if one.kind == "phone" else map(_json, forms(one)) for one in self.addresses)
        return list(dict.fromkeys(term for terms in found for term in terms))

    @property
    def pattern(self) -> str:
        """The pattern of lower-case texts that have one of the addresses, and not as a part of another address."""
        written = [re.escape(_json(form)) for form in self.forms]
        spaced = [
            rf"(?:\+|00){_BETWEEN}{_BETWEEN.join(one.text[1:])}(?!{_BETWEEN}[0-9])"
            for one in self.addresses
            if one.kind == "phone"
        ]
        return f"{_BEFORE}(?:{'|'.join(written + spaced)}){_AFTER}"


def _json(form: str) -> str:
    """The form as JSON writes it, in lower case."""
    return json.dumps(form.lower(), ensure_ascii=False)[1:-1]


def person_of(addresses: Iterable[Address]) -> Person:
    """Return the person with these addresses, each once."""
    return Person(list(dict.fromkeys(addresses)))
