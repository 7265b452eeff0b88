"""The headers that all messages with the same options share, compiled once.

Names of custom headers are a closed set and `X-…`: each of them is free text or a list of message ids, and none says
who sent a message, to whom, or what it consists of.
"""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from channels.shared.mail import addresses
from channels.shared.mail.addresses import Address
from channels.shared.mail.errors import MailFault
from channels.shared.mail.header_encoding import HEADER_CHARACTERS_MAX, no_control, unstructured
from channels.shared.mail.settings import MailSettings

CUSTOM_HEADERS_MAX = 50
REPLY_TO_MAX = 10
NAME_CHARACTERS_MAX = 70


def _by_lower_case(names: str) -> dict[str, str]:
    return {name.lower(): name for name in names.split()}


_FREE = _by_lower_case(
    "Comments Feedback-ID Importance Keywords List-ID Organization Precedence Priority Sensitivity Thread-Topic"
)
_LISTS = _by_lower_case("List-Archive List-Help List-Owner List-Post List-Subscribe")
_MESSAGE_IDS = _by_lower_case("In-Reply-To References")
_ELSEWHERE = {
    "from": "options.from",
    "reply-to": "options.reply_to",
    "date": "options.date",
    "subject": "the template's subject",
    "to": "the delivery's recipient",
    "list-unsubscribe": "options.list_unsubscribe",
    "list-unsubscribe-post": "options.list_unsubscribe",
}
_ALWAYS = {"Auto-Submitted": "auto-generated"}
_AUTO_SUBMITTED = ("auto-generated", "auto-replied", "no")

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]*").fullmatch
_IDS = re.compile(r"<[!-;=?-~]{1,250}>(?: +<[!-;=?-~]{1,250}>)*").fullmatch
_LINK_LIST = re.compile(r"NO|<(?:https?|mailto):[!-;=?-~]{1,850}>").fullmatch


class Head(Struct, frozen=True, gc=False):
    """The constant part of a head: what stands before the recipient, and what stands behind the Message-ID."""

    sender: str
    domain: str
    opening: str
    closing: str
    smtputf8: bool


def compile_head(settings: MailSettings, options: Mapping[str, Any]) -> Head:
    """The head for a sender, its reply addresses and its headers."""
    author = sender_of(settings, options)
    back = addresses.parse(settings.return_path, "return_path") if settings.return_path else author
    replies = replies_of(settings, options.get("reply_to"))
    custom = custom_headers(options.get("headers"))
    automatic = custom.pop("Auto-Submitted")
    opening = [f"From: {author.header}\r\n"]
    if replies:
        opening.append("Reply-To: " + ",\r\n ".join(reply.header for reply in replies) + "\r\n")
    closing = ["MIME-Version: 1.0\r\n", f"Auto-Submitted: {automatic}\r\n"]
    closing += [f"{name}: {_folded(name, value)}\r\n" for name, value in custom.items()]
    return Head(
        sender=back.spec,
        domain=addresses.domain(settings.message_id_domain or author.domain, "message_id_domain"),
        opening="".join(opening),
        closing="".join(closing),
        smtputf8=any(address.smtputf8 for address in (author, back, *replies)),
    )


def sender_of(settings: MailSettings, options: Mapping[str, Any]) -> Address:
    """The sender's address."""
    given = options.get("from")
    if given is None and not settings.sender:
        raise MailFault("options.from", "is missing; name a sender here, or as `from` in the channel's options")
    return addresses.parse(settings.sender if given is None else given, "from" if given is None else "options.from")


def replies_of(settings: MailSettings, given: object) -> list[Address]:
    """The addresses for replies; empty where the sender gets them."""
    if given is None:
        return [addresses.parse(settings.reply_to, "reply_to")] if settings.reply_to else []
    wanted = list(given) if isinstance(given, list | tuple) else [given]
    if len(wanted) > REPLY_TO_MAX:
        raise MailFault("options.reply_to", f"has more than {REPLY_TO_MAX} addresses; leave some out")
    return [addresses.parse(one, "options.reply_to") for one in wanted]


def custom_headers(given: object) -> dict[str, str]:
    """Custom headers by the name that they are known by, each value on one line. Auto-Submitted is always there."""
    if given is None:
        return dict(_ALWAYS)
    if not isinstance(given, Mapping):
        raise MailFault("options.headers", "is not an object of texts by name; write it as one")
    if len(given) > CUSTOM_HEADERS_MAX:
        raise MailFault("options.headers", f"has more than {CUSTOM_HEADERS_MAX} names; leave some out")
    custom: dict[str, str] = {}
    for name, value in given.items():
        known = _known(name)
        if known.lower() in {other.lower() for other in custom}:
            raise MailFault(f"options.headers.{known}", "is there twice; leave one out")
        custom[known] = _value(known, value)
    return _ALWAYS | custom


def _known(name: object) -> str:
    """The name of a header as it is written. A name that is not allowed is not repeated."""
    if not isinstance(name, str) or len(name) > NAME_CHARACTERS_MAX or not _NAME(name):
        raise MailFault(
            "options.headers", "has a name with other characters than letters, digits and hyphens; rename it"
        )
    low = name.lower()
    if low == "auto-submitted":
        return "Auto-Submitted"
    known = _FREE.get(low) or _LISTS.get(low) or _MESSAGE_IDS.get(low) or (name if low.startswith("x-") else None)
    if known:
        return known
    instead = _ELSEWHERE.get(low)
    words = f"is not set here; use {instead}" if instead else "is not a header that may be set; use a name with X-"
    raise MailFault(f"options.headers.{name}", words)


def _value(name: str, value: object) -> str:
    field = f"options.headers.{name}"
    if not isinstance(value, str):
        raise MailFault(field, "is not a text; write it in quotes")
    if len(value) > HEADER_CHARACTERS_MAX:
        raise MailFault(field, f"has more than {HEADER_CHARACTERS_MAX} characters; make it shorter")
    if len(value.splitlines()) > 1 or value.endswith(("\r", "\n")):
        raise MailFault(field, "has a line break; write it on one line")
    no_control(value, field)
    value = value.strip(" ")
    if not value.strip():
        raise MailFault(field, "is empty; leave it out, or give it a value")
    if name == "Auto-Submitted" and value not in _AUTO_SUBMITTED:
        raise MailFault(field, f"is none of {', '.join(_AUTO_SUBMITTED)}; write one of them")
    low = name.lower()
    if low in _MESSAGE_IDS and not _IDS(value):
        raise MailFault(field, "is not a list of message ids, each in angle brackets; check it")
    if low in _LISTS and not _LINK_LIST(value):
        raise MailFault(field, "is not one link in angle brackets; write it like <https://example.org/list>")
    return value


def _folded(name: str, value: str) -> str:
    return value.replace(" <", "\r\n <") if name.lower() in _MESSAGE_IDS else unstructured(name, value)
