"""Unsubscribe links: only what we signed is read, whoever writes it, and the same mail has the same link every time."""

import base64
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.engine.rules.unsubscribe_links import TOKEN_CHARACTERS_MAX, Links, Subscription

LINKS = Links("https://mail.example.org/", f"{'a' * 32}\n{'b' * 32}")
ONE = Subscription("default", "email", "ann@example.org", "news")


def _token(links: Links, one: Subscription = ONE) -> str:
    return links.url(one).rpartition("/")[2]


@given(
    st.text(max_size=100), st.sampled_from(["email", "phone", "other"]), st.text(max_size=500), st.none() | st.text()
)
def test_a_signed_token_is_read_back(tenant: str, kind: str, address: str, topic: str | None) -> None:
    try:
        one = Subscription(tenant, kind, address, topic)  # type: ignore[arg-type]  # a kind by name
        url = LINKS.url(one)
    except UnicodeEncodeError:
        return
    if len(url) < TOKEN_CHARACTERS_MAX:
        assert LINKS.read(url.removeprefix("https://mail.example.org/u/")) == one
        assert url.isascii()
        assert LINKS.url(one) == url


def test_the_longest_that_a_delivery_can_have_is_read() -> None:
    one = Subscription("\u00fc" * 100, "email", "\U0001f600" * 480 + "@example.org", "t" * 64)
    assert LINKS.read(_token(LINKS, one)) == one


@given(st.text(max_size=300))
def test_an_unsigned_token_is_refused(token: str) -> None:
    assert LINKS.read(token) is None


@given(st.data())
def test_no_character_can_be_changed_added_or_left_out(data: st.DataObject) -> None:
    token = _token(LINKS)
    at = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.sampled_from("ABCabc012-_=%"))
    for changed in (token[:at] + other + token[at + 1 :], token[:at] + other + token[at:], token[:at]):
        if changed != token:
            assert LINKS.read(changed) is None


def test_the_first_secret_signs_and_all_verify() -> None:
    newer = Links("https://mail.example.org", f"{'c' * 32} {'a' * 32}")
    assert newer.read(_token(LINKS)) == ONE
    assert newer.url(ONE) != LINKS.url(ONE)
    assert LINKS.read(_token(newer)) is None
    assert Links("https://mail.example.org", "c" * 32).read(_token(LINKS)) is None


def test_a_signature_for_another_purpose_is_refused() -> None:
    body = base64.urlsafe_b64encode(b'["default","email","ann@example.org","news"]').rstrip(b"=")
    mac = base64.urlsafe_b64encode(hmac.digest(b"a" * 32, body, "sha256")).rstrip(b"=")
    assert LINKS.read((body + mac).decode()) is None


@pytest.mark.parametrize(("url", "secrets"), [("", ""), ("https://x", ""), ("", "a" * 32)])
def test_without_an_address_or_a_secret_there_are_no_links(url: str, secrets: str) -> None:
    assert Links.of(url, secrets) is None
