"""Addresses: what is read as which address, and what is refused with which words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.shared.mail.addresses import parse
from channels.shared.mail.errors import MailFault

LONG = "a" * 70

READ = {
    "ann@example.org": ("ann@example.org", ""),
    "Ann@EXAMPLE.Org": ("Ann@example.org", ""),
    "  ann@example.org ": ("ann@example.org", ""),
    "<ann@example.org>": ("ann@example.org", ""),
    "Ann Lee <ann@example.org>": ("ann@example.org", "Ann Lee"),
    "Ann B. Lee <ann@example.org>": ("ann@example.org", "Ann B. Lee"),
    '"Lee, Ann" <ann@example.org>': ("ann@example.org", "Lee, Ann"),
    '"Ann \\"A\\" Lee" <ann@example.org>': ("ann@example.org", 'Ann "A" Lee'),
    "ann@example.com <ann@example.org>": ("ann@example.org", "ann@example.com"),
    "Zoë <zoe@example.org>": ("zoe@example.org", "Zoë"),
    "ann@example.org (at home)": ("ann@example.org", ""),
    "(a (nested\\) one)) ann@example.org": ("ann@example.org", ""),
    "Ann (of sales) <ann@example.org>": ("ann@example.org", "Ann"),
    '"ann lee"@example.org': ('"ann lee"@example.org', ""),
    '"ann"@example.org': ("ann@example.org", ""),
    '"a@b"@example.org': ('"a@b"@example.org', ""),
    "o'neill+tag@example.org": ("o'neill+tag@example.org", ""),
    "ann@localhost": ("ann@localhost", ""),
    "ann@bücher.example": ("ann@xn--bcher-kva.example", ""),
    "ann@BÜCHER.example": ("ann@xn--bcher-kva.example", ""),
    "ann@straße.example": ("ann@xn--strae-oqa.example", ""),
    "ann@例え.テスト": ("ann@xn--r8jz45g.xn--zckzah", ""),
    "jürgen@example.org": ("jürgen@example.org", ""),
    "🙂@example.org": ("🙂@example.org", ""),
}

REFUSED = {
    "": "is empty",
    "   ": "is empty",
    "ann": "has no @",
    "Ann <ann>": "has no @",
    "@example.org": "has nothing before its @",
    '""@example.org': "has nothing before its @",
    "ann@": "has nothing behind its @",
    "ann lee@example.org": "has a space",
    "ann@exam ple.org": "has a space",
    "ann\u00a0lee@example.org": "has a space",
    "ann@example.org\r\nRCPT TO:<x@example.org>": r"has a control character \(U\+000D\)",
    "ann@example.org\n": r"has a control character \(U\+000A\)",
    "ann\x00@example.org": r"has a control character \(U\+0000\)",
    "ann\x07@example.org": r"has a control character \(U\+0007\)",
    "ann\u0085@example.org": r"has a control character \(U\+0085\)",
    "ann\ud800@example.org": "has half of a surrogate pair",
    "\u202eann@example.org": r"has an invisible character \(U\+202E\)",
    "ann\u200b@example.org": r"has an invisible character \(U\+200B\)",
    "ann@example.org, ben@example.org": "has a comma",
    "Lee, Ann <ann@example.org>": "has a comma",
    "ann@example.org ben@example.org": "has more than one @",
    "ann@example.org; ben@example.org": "is a group or a list",
    "friends: ann@example.org, ben@example.org;": "is a group or a list",
    "friends:;": "is a group or a list",
    "a: Ann <ann@example.org>": "has a colon before the address",
    "<@relay.example:ann@example.org>": "has a route",
    "<ann@example.org": "has angle brackets",
    "<<ann@example.org>>": "has angle brackets",
    "Ann <ann@example.org> Lee": "has something behind",
    "Ann <ann@example.org> <ben@example.org>": "has angle brackets",
    '"ann@example.org': "has a quote or a parenthesis",
    "ann)@example.org": "has a quote or a parenthesis",
    "(ann@example.org": "has a parenthesis that is not closed",
    ".ann@example.org": "has a dot or a sign",
    "ann.@example.org": "has a dot or a sign",
    "an..n@example.org": "has a dot or a sign",
    "an[n@example.org": "has a dot or a sign",
    "an\\n@example.org": "has a dot or a sign",
    'an"n"@example.org': "has a dot or a sign",
    f"{LONG}@example.org": "has more than 64 bytes before its @",
    f"{'ä' * 33}@example.org": "has more than 64 bytes before its @",
    f"ann@{LONG}.org": "has a part of more than 63 characters between the dots",
    f"ann@{'ä' * 70}.org": "has a part of more than 63 characters between the dots",
    f"ann@{'a.' * 130}org": "has a domain of more than 253 characters",
    f"{'a' * 60}@{'abcdefghi.' * 19}example": "is longer than 254 bytes",
    "x" * 1_001: "has more than 1000 characters",
    f"{'n' * 400} <ann@example.org>": "has a name of more than 320 characters",
    "ann@[127.0.0.1]": "has an address in brackets",
    "ann@-example.org": "has a domain that cannot be one",
    "ann@example-.org": "has a domain that cannot be one",
    "ann@exam_ple.org": "has a domain that cannot be one",
    "ann@example..org": "has a domain that cannot be one",
    "ann@.org": "has a domain that cannot be one",
    "ann@example.org.": "has a domain that cannot be one",
    "ann@xn--zzzzzzzzzz99999.org": "has a domain that cannot be one",
    "ann@🙂.example": "has a domain with a sign that no domain can have",
}


@pytest.mark.parametrize(("text", "expected"), READ.items(), ids=ascii)
def test_an_address_is_read(text: str, expected: tuple[str, str]) -> None:
    address = parse(text, "recipient")
    assert (address.spec, address.name) == expected
    assert address.domain == address.spec.rpartition("@")[2]
    assert address.smtputf8 is not address.spec.isascii()


@pytest.mark.parametrize(("text", "words"), REFUSED.items(), ids=lambda text: ascii(text)[:40])
def test_invalid_addresses_are_refused_with_a_reason(text: str, words: str) -> None:
    with pytest.raises(MailFault, match=f"^recipient: {words}") as caught:
        parse(text.replace("ann", "hidden").replace("example.org", "hidden.example"), "recipient")
    assert "hidden" not in caught.value.args[1]
    assert ";" in caught.value.args[1]


@given(st.text(max_size=60) | st.text('ann@.<>()"\\,;: [xé\r\n', max_size=30))
def test_whatever_is_read_stays_on_its_line_and_is_one_address(text: str) -> None:
    try:
        address = parse(text, "recipient")
    except MailFault:
        return
    assert parse(address.spec, "recipient").spec == address.spec
    assert not any(sign in address.spec for sign in "\r\n\0")
    assert "\n" not in address.header.replace("\r\n ", "")
    assert address.domain.isascii()
