"""The length of a post as Mastodon counts it."""

import pytest

from channels.mastodon.length import length_of

LONG = "https://shop.example.org/" + "a" * 200


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("", 0),
        ("New seats", 9),
        ("a\r\nb", 3),
        # A link is 23, however long or short it is.
        (LONG, 23),
        (f"See {LONG} now", 31),
        ("http://a.de", 23),
        ("HTTPS://A.DE/x?y#z", 23),
        # What is no link is counted as it stands.
        ("ftp://a.example.org/file", 24),
        ("https://localhost", 17),
        # A mention without its domain.
        ("@ann@social.example.org hello", 10),
        ("mail ann@example.org", 20),
        # What is seen as one character.
        ("e\u0301", 1),
        ("\U0001f44d\U0001f3fd", 1),
        ("\U0001f468\u200d\U0001f469\u200d\U0001f467", 1),
        ("\u2764\ufe0f", 1),
        ("\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7", 2),
        ("\u1112\u1161\u11ab", 1),
        ("日本語", 3),
    ],
)
def test_a_post_is_as_long_as_what_is_seen(text: str, length: int) -> None:
    assert length_of(text) == length


def test_the_spoiler_text_counts() -> None:
    assert length_of("abc", "de") == 5


def test_a_long_text_is_counted_at_once() -> None:
    assert length_of("@" * 200_000) == 200_000
    assert length_of("https://" + "a." * 100_000) > 0
    assert length_of("a-" * 100_000 + "\u2603") == 200_001
