"""Addresses: one form for all the ways in which the same one is written, and never two people in one form."""

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from dispatcher.base.values.addresses import CHARACTERS_MAX, Address, address, forms, parse_address


@pytest.mark.parametrize(
    ("channel", "written", "form"),
    [
        ("email", "ann@example.org", "ann@example.org"),
        ("email", " Ann@Example.ORG ", "ann@example.org"),
        ("email", "Ann Smith <ANN@example.org>", "ann@example.org"),
        ("email", "ann@example.org.", "ann@example.org"),
        ("email", "ann@bücher.example", "ann@xn--bcher-kva.example"),
        ("email", "Ann@BÜCHER.example", "ann@xn--bcher-kva.example"),
        ("email", "ann@xn--BCHER-kva.example", "ann@xn--bcher-kva.example"),
        ("sms", "+49 (0)170 123-45", "+4917012345"),
        ("voice", "0049 170/12345", "+4917012345"),
        ("whatsapp", "whatsapp:+4917012345", "+4917012345"),
        ("sms", "4917012345", "+4917012345"),
        ("push", "Token-A", "Token-A"),
        ("pager", "Ann@example.org", "ann@example.org"),
        ("pager", "+49 170 12345", "+4917012345"),
        ("pager", "4917012345", "4917012345"),
    ],
)
def test_every_way_to_write_an_address_has_one_form(channel: str, written: str, form: str) -> None:
    assert address(channel, written).text == form


@pytest.mark.parametrize(
    ("channel", "one", "other"),
    [
        ("email", "ann@example.org", "ann@example.com"),
        ("email", "a.nn@example.org", "ann@example.org"),
        ("email", "ann+news@example.org", "ann@example.org"),
        ("sms", "+4917012345", "+4917012346"),
        ("push", "token-a", "Token-A"),
        ("push", "+4917012345", "4917012345"),
    ],
)
def test_different_addresses_have_different_forms(channel: str, one: str, other: str) -> None:
    assert address(channel, one) != address(channel, other)


def test_an_invalid_phone_number_of_a_channel_is_refused() -> None:
    """A chat's id of digits must not be stopped by somebody's phone number."""
    assert address("chat", "4917012345").kind == "other"
    assert address("sms", "4917012345") == Address("phone", "+4917012345")


@drawn(st.sampled_from(["email", "sms", "push", "pager"]), st.text(max_size=600))
def test_whatever_the_recipient_is_it_has_a_form_that_is_its_own(channel: str, recipient: str) -> None:
    found = address(channel, recipient)
    assert len(found.text) <= CHARACTERS_MAX
    if found.kind == "email":
        assert found.text.rpartition("@")[2].isascii()
    if found.kind == "phone":
        assert found.text[1:].isdigit()
        assert found.text.isascii()


def test_a_long_address_is_kept_by_its_hash() -> None:
    long = "https://push.example/" + "x" * 1_000
    assert address("push", long).text.startswith("sha256:")
    assert address("push", long) != address("push", long + "x")


def test_an_international_domain_is_looked_for_in_both_ways_to_write_it() -> None:
    assert forms(address("email", "ann@bücher.example")) == ["ann@xn--bcher-kva.example", "ann@bücher.example"]


@pytest.mark.parametrize(
    ("text", "kind", "complaint"),
    [
        ("", None, "is empty"),
        ("ann@", None, "neither an e-mail address nor a phone number"),
        ("ann example@org", "email", "is no e-mail address"),
        ("ann@a\u2028b.org", None, "control character"),
        ("ann@exa mple.org", "email", "is no e-mail address"),
        ("0170 12345", None, "neither an e-mail address nor a phone number"),
        ("+49", None, "expected 4 to 15 digits"),
        ("+" + "1" * 20, None, "expected 4 to 15 digits"),
        ("hello", "phone", "is no phone number"),
        ("a" * 500 + "@example.org", None, "has more than 500 characters"),
    ],
)
def test_a_given_text_is_read_as_an_address_or_refused_with_a_sentence(
    text: str, kind: str | None, complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_address(text, kind)  # type: ignore[arg-type]  # a kind by name


@pytest.mark.parametrize(
    ("text", "kind", "found"),
    [
        ("Ann <ANN@example.org>", None, Address("email", "ann@example.org")),
        ("+49 170 12345", None, Address("phone", "+4917012345")),
        ("0170 12345", "phone", Address("phone", "+017012345")),
        ("Token", "other", Address("other", "Token")),
    ],
)
def test_a_given_address_gets_the_form_that_deliveries_store(text: str, kind: str | None, found: Address) -> None:
    assert parse_address(text, kind) == found  # type: ignore[arg-type]  # a kind by name
