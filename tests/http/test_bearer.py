"""Bearer keys: what is made can be read, what has not the form cannot, and only the whole secret fits."""

import itertools
import math
import secrets
import string
from hashlib import sha256

import pytest

from dispatcher.http import bearer


def test_a_key_that_is_made_is_read_and_fits_its_hash() -> None:
    made = bearer.make(secrets.choice)
    shown = bearer.read(made.text)
    assert shown == made
    assert made.text.startswith(made.prefix + "_")
    assert made.hash == sha256(made.text.encode()).digest()
    assert made.matches(made.hash)


def test_another_secret_behind_the_same_prefix_does_not_fit() -> None:
    made = bearer.make(secrets.choice)
    last = "a" if made.text[-1] != "a" else "b"
    other = bearer.read(made.text[:-1] + last)
    assert other is not None
    assert other.prefix == made.prefix
    assert not other.matches(made.hash)


def test_every_byte_of_its_hash_counts() -> None:
    made = bearer.make(secrets.choice)
    for at in range(len(made.hash)):
        assert not made.matches(made.hash[:at] + bytes([made.hash[at] ^ 1]) + made.hash[at + 1 :])


def test_secrets_have_enough_independent_characters() -> None:
    characters = itertools.cycle(string.ascii_letters + string.digits)
    asked: list[str] = []

    def choose(among: str) -> str:
        asked.append(among)
        return next(characters)

    made = bearer.make(choose)
    assert made.text == "dsp_abcdefghijkl_mnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ012"
    secret = asked[-len(made.text.rpartition("_")[2]) :]
    assert sum(math.log2(len(set(among))) for among in secret) >= 256


@pytest.mark.parametrize(
    "change", [lambda t: t[:-1], lambda t: t + "a", lambda t: t.upper(), lambda t: t + "\n", lambda t: ""]
)
def test_a_malformed_key_is_not_a_key(change: object) -> None:
    made = bearer.make(secrets.choice)
    assert bearer.read(change(made.text)) is None  # type: ignore[operator]  # a function on texts
