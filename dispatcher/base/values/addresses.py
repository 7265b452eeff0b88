"""Addresses in one normal form, in which they are compared."""

import hashlib
import re
import unicodedata
from contextlib import suppress
from typing import Literal

import idna
from msgspec import Struct

Kind = Literal["email", "phone", "other"]
KINDS: tuple[Kind, ...] = ("email", "phone", "other")

# What the table keeps. A longer one (a browser's push endpoint, say) is kept by its hash.
CHARACTERS_MAX = 500
# E.164 has 15 digits at most, and no number that one can be called at has fewer than 4 with its country.
PHONE_DIGITS_MIN = 4
PHONE_DIGITS_MAX = 15
PHONE_DIGITS_KEPT_MAX = 30

_PHONES = frozenset({"sms", "whatsapp", "voice"})
_OTHERS = frozenset({"push", "social", "chat", "http", "webhook"})
_E164 = re.compile(r"\+[0-9]{4,15}\Z")
_PHONE = re.compile(r"(?:[a-z]+:)?\+?[0-9][0-9 ().\-/\u00a0]*\Z")
# What the table takes as an e-mail address: more than what a person may give.
_EMAIL_FORM = re.compile(r".+@[!-~]+\Z", re.DOTALL)
_EMAIL = re.compile(r"[^\s<>@]+@[^\s<>@]+\Z")
# A trunk prefix as people write it: +49 (0) 170.
_TRUNK = re.compile(r"(?<=\d)[ \u00a0]*\(0\)")
_NO_DIGIT = re.compile(r"[^0-9]")


class Address(Struct, frozen=True):
    """An address: its kind and its normal form."""

    kind: Kind
    text: str


def address(channel: str, recipient: str) -> Address:
    """Return the address of a delivery. Every recipient has one: its channel judges whether it is valid."""
    if channel == "email":
        kind: Kind = "email"
    elif channel in _PHONES:
        kind = "phone"
    elif channel in _OTHERS:
        kind = "other"
    else:
        kind = kind_of(recipient)
    if kind == "email":
        text = _email(recipient)
        if _EMAIL_FORM.match(text) and len(text) <= CHARACTERS_MAX:
            return Address(kind, text)
    elif kind == "phone" and _E164.match(recipient):
        return Address(kind, recipient)
    elif kind == "phone" and _PHONE.match(recipient.strip()):
        text = _phone(recipient)
        if PHONE_DIGITS_MIN < len(text) <= PHONE_DIGITS_KEPT_MAX:
            return Address(kind, text)
    return Address("other", _plain(recipient))


def kind_of(text: str) -> Kind:
    """Return what kind an address seems to be, where no channel says it."""
    bare = _bare(text)
    if _EMAIL.match(bare):
        return "email"
    return "phone" if bare.startswith(("+", "00")) and _PHONE.match(bare) else "other"


def parse_address(text: str, kind: Kind | None = None) -> Address:
    """Return an address that a person has written. Raises ValueError with its fault."""
    if not text.strip():
        raise ValueError("is empty")
    if not text.strip().isprintable():
        raise ValueError("has a control character")
    chosen = kind or kind_of(text)
    if chosen == "email":
        if not _EMAIL.match(_bare(text)):
            raise ValueError("is no e-mail address: expected name@domain")
        found = _email(text)
        if not _EMAIL_FORM.match(found):
            raise ValueError("its domain is none: it cannot be written in ASCII (IDNA)")
    elif chosen == "phone":
        if not _PHONE.match(text.strip()):
            raise ValueError("is no phone number: expected + and its digits")
        found = _phone(text)
        if not PHONE_DIGITS_MIN <= len(found) - 1 <= PHONE_DIGITS_MAX:
            raise ValueError(f"is no phone number: expected {PHONE_DIGITS_MIN} to {PHONE_DIGITS_MAX} digits")
    elif kind is None:
        raise ValueError("is neither an e-mail address nor a phone number with + before it: name its kind")
    else:
        return Address("other", _plain(text))
    if len(found) > CHARACTERS_MAX:
        raise ValueError(f"has more than {CHARACTERS_MAX} characters")
    return Address(chosen, found)


def forms(one: Address) -> list[str]:
    """Return its forms in deliveries, apart from punctuation, display names and the case of ASCII letters."""
    match one.kind:
        case "email":
            local, _, domain = one.text.rpartition("@")
            return [one.text] if "xn--" not in domain else [one.text, f"{local}@{_unicode(domain)}"]
        case "phone":
            return [one.text, "00" + one.text[1:]]
        case _:
            return [one.text]


def _bare(text: str) -> str:
    """Return an address without its display name."""
    return (text[text.rfind("<") + 1 : -1] if text.endswith(">") else text).strip()


def _email(text: str) -> str:
    text = text.strip()
    if text.endswith(">"):
        text = _bare(text)
    text = text.removesuffix(".")
    if text.isascii():
        return text.lower()
    local, at, domain = unicodedata.normalize("NFC", text).lower().rpartition("@")
    with suppress(UnicodeError):  # what the library raises is one
        domain = idna.encode(domain, uts46=True).decode("ascii")
    return f"{local}{at}{domain}"


def _unicode(domain: str) -> str:
    try:
        return idna.decode(domain)
    except UnicodeError:
        return domain


def _phone(text: str) -> str:
    text = text.strip()
    digits = _NO_DIGIT.sub("", _TRUNK.sub("", text))
    return "+" + (digits.removeprefix("00") if "+" not in text else digits)


def _plain(text: str) -> str:
    text = text.strip()
    if len(text) <= CHARACTERS_MAX:
        return text
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
