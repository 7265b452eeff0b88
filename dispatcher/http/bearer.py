"""Bearer keys: a prefix by which they are found, and a secret of which only the hash is stored."""

import hmac
import re
import string
from collections.abc import Callable
from hashlib import sha256

from msgspec import Struct

# What keys are called, as the schema has it.
KEY_NAME = r"[A-Za-z0-9][A-Za-z0-9._@/-]{0,99}"
KEY_NAME_FORM = {"form": "1 to 100 letters, digits and . _ @ / -, a letter or digit first"}
# Only letters and digits: a double click selects it, and no shell or URL changes it.
_ALPHABET = string.ascii_letters + string.digits
_PREFIX_CHARACTERS = 12
# 62 to the 43rd: 256 bits, so that a plain hash is as good as a slow one.
_SECRET_CHARACTERS = 43
_FORM = re.compile(rf"(dsp_[A-Za-z0-9]{{{_PREFIX_CHARACTERS}}})_[A-Za-z0-9]{{{_SECRET_CHARACTERS}}}")


class Bearer(Struct, frozen=True):
    """A key with its secret. It is shown once, and never stored."""

    prefix: str
    text: str

    @property
    def hash(self) -> bytes:
        return sha256(self.text.encode()).digest()

    def matches(self, stored: bytes) -> bool:
        """Whether this is the key of a stored hash, compared in constant time."""
        return hmac.compare_digest(self.hash, stored)


def make(choose: Callable[[str], str]) -> Bearer:
    """Return a new key; `choose` takes one character of a text, unpredictably."""

    def some(count: int) -> str:
        return "".join(choose(_ALPHABET) for _ in range(count))

    prefix = "dsp_" + some(_PREFIX_CHARACTERS)
    return Bearer(prefix, f"{prefix}_{some(_SECRET_CHARACTERS)}")


def prefix(text: str) -> str:
    """Return the prefix of a key that `read` has accepted."""
    return text.rpartition("_")[0]


def read(text: str) -> Bearer | None:
    """Return the key in a text; None if it does not have the form of a key."""
    match = _FORM.fullmatch(text)
    return None if match is None else Bearer(match[1], text)
