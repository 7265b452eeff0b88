"""Checks of captured messages."""

from email import message_from_bytes, policy
from email.message import EmailMessage

import pytest

from dispatcher.console.pages.messages.mail_checks import HTML_BYTES_MAX, checks

SOUND = (
    '<a href="https://shop.example.org/17">Order</a> <a href="mailto:a@b.example">Write</a> <img src="cid:1" alt="">'
)


def _wrong(html: str, mail: bytes | None = None, fault: str | None = None) -> list[str]:
    read = None if mail is None else message_from_bytes(mail, policy=policy.default)
    assert read is None or isinstance(read, EmailMessage)
    return [one.words for one in checks({"html": html}, read, fault) if not one.is_good]


def test_a_sound_message_passes() -> None:
    assert _wrong(SOUND, b"Subject: x\nList-Unsubscribe: <https://x.example>\n\nText.\n") == []


@pytest.mark.parametrize(
    ("html", "said"),
    [
        ('<a href="/orders/17">', "link /orders/17: is not a whole address"),
        ('<a href="http://shop.example.org">', "is not encrypted"),
        ('<a href="https://localhost:8000/x">', "leads to no public host"),
        ('<a href="https://[x">', "is not an address"),
        ("Hello {{ name }}", "it shows the source of a template"),
        ('<img src="https://shop.example.org/x.png">', "1 images without alt"),
        ("x" * (HTML_BYTES_MAX + 1), "it is cut off by some"),
    ],
)
def test_a_fault_is_named(html: str, said: str) -> None:
    [found] = _wrong(html)
    assert said in found


def test_a_mail_without_a_way_to_unsubscribe_or_a_text_is_told() -> None:
    found = _wrong("x", b"Subject: x\nContent-Type: text/html\n\n<p>x</p>\n", "it has no recipient")
    assert [words[:19] for words in found] == ["it has no recipient", "no List-Unsubscribe", "no text part"]
