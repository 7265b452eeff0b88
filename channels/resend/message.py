"""A message as the API takes it: one JSON object an envelope, the same bytes on every attempt."""

import hashlib
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from channels.contract import Envelope
from channels.resend.options import ResendOptions
from channels.shared.mail import addresses, headers
from channels.shared.mail import attachments as files
from channels.shared.mail.addresses import Address
from channels.shared.mail.composer import refuse_unsupported_options, unsubscribe_headers
from channels.shared.mail.errors import MailFault
from channels.shared.mail.header_encoding import no_surrogate, one_line, quoted
from channels.shared.mail.settings import MailSettings
from channels.shared.web.client import delivery_key

# The API takes 40 MB, files encoded.
MESSAGE_BYTES_MAX = 40_000_000
FILES_MAX = 100
TAGS_MAX = 50
# Each message carries its delivery's number, so that what the API reports about it later finds its way back.
DELIVERY_TAG = "delivery"

_is_tag = re.compile(r"[A-Za-z0-9_-]{1,256}").fullmatch
_is_plain_name = re.compile(r"[^()<>\[\]:;@\\,.\"]*").fullmatch

_encode = msgspec.json.Encoder(order="deterministic").encode


class Message(Struct, frozen=True, gc=False):
    """One message, encoded. A message with files cannot be part of a batch."""

    data: bytes
    files: bool


class Messages:
    """Makes messages of envelopes."""

    def __init__(self, options: ResendOptions) -> None:
        self._settings = MailSettings(sender=options.sender, reply_to=options.reply_to)

    def make(self, envelope: Envelope) -> Message:
        """The message of a delivery, or a MailFault that says what is wrong with it."""
        parts, options = envelope.parts, envelope.options
        refuse_unsupported_options(options)
        fields: dict[str, object] = {
            "from": _shown(headers.sender_of(self._settings, options)),
            "to": [_shown(addresses.parse(envelope.recipient, "recipient"))],
            "subject": _subject(parts),
            "headers": headers.custom_headers(options.get("headers")) | unsubscribe_headers(options),
            "tags": _tags(envelope),
        }
        fields |= {name: _body(parts[name], name) for name in ("text", "html") if parts.get(name)}
        if "text" not in fields and "html" not in fields:
            raise MailFault("template", "has neither a text nor an html with anything in it; write one")
        if replies := headers.replies_of(self._settings, options.get("reply_to")):
            fields["reply_to"] = [_shown(reply) for reply in replies]
        if attached := _attached(options):
            fields["attachments"] = attached
        data = _encode(fields)
        if len(data) > MESSAGE_BYTES_MAX:
            raise _too_large("message")
        return Message(data, bool(attached))


def batch_key(envelopes: Sequence[Envelope]) -> str:
    """The key of a batch, in this order."""
    return "b-" + hashlib.sha256("|".join(map(delivery_key, envelopes)).encode()).hexdigest()


def _shown(address: Address) -> str:
    """With the name before it, quoted where a sign in it would mean something. The API encodes what is not ASCII."""
    if not address.name:
        return address.spec
    name = address.name if _is_plain_name(address.name) else quoted(address.name)
    return f"{name} <{address.spec}>"


def _subject(parts: Mapping[str, str]) -> str:
    subject = one_line(parts.get("subject", ""), "subject")
    if not subject:
        raise MailFault("subject", "is missing or empty; give the template one")
    return subject


def _body(text: str, name: str) -> str:
    if len(text) > MESSAGE_BYTES_MAX:
        raise _too_large(name)
    if "\0" in text:
        raise MailFault(name, "has a control character (U+0000); remove it")
    no_surrogate(text, name)
    return text


def _too_large(field: str) -> MailFault:
    return MailFault(field, f"is too large: a message has {MESSAGE_BYTES_MAX} bytes at the most; shorten it, or link")


def _tags(envelope: Envelope) -> list[dict[str, str]]:
    given = envelope.options.get("tags") or {}
    if not isinstance(given, Mapping) or len(given) > TAGS_MAX:
        raise MailFault("options.tags", f"is not an object of at most {TAGS_MAX} texts by name; write it as one")
    tags = {DELIVERY_TAG: str(envelope.delivery_id)}
    for name, value in given.items():
        if name == DELIVERY_TAG:
            raise MailFault("options.tags", f"has the name {DELIVERY_TAG}, which is taken; use another one")
        if not _is_tag(name) or not isinstance(value, str) or not _is_tag(value):
            raise MailFault("options.tags", "has other signs than letters, digits, _ and -; leave them out")
        tags[name] = value
    return [{"name": name, "value": value} for name, value in tags.items()]


def _attached(options: Mapping[str, Any]) -> list[dict[str, str]]:
    """Files and inline images, as the API has them in one list."""
    attached: list[dict[str, str]] = []
    cids: set[str] = set()
    size = 0
    for option, disposition in _DISPOSITIONS.items():
        for field, one in files.each(options.get(option) or (), disposition, FILES_MAX):
            file = {"content_type": files.media_type(one, field), "content": _content(one, field)}
            name = files.file_name(one, disposition, field)
            if disposition == "inline":
                file["content_id"] = files.content_id(one.get("cid"), cids, field)
            file["filename"] = name or file["content_id"]
            size += len(file["content"])
            if size > MESSAGE_BYTES_MAX:
                raise _too_large(field)
            attached.append(file)
    return attached


_DISPOSITIONS: Mapping[str, files.Disposition] = {"attachments": "attachment", "inline": "inline"}


def _content(one: Mapping[str, Any], field: str) -> str:
    content = files.given_content(one, field)
    if len(content) > MESSAGE_BYTES_MAX:
        raise _too_large(field)
    return b64encode(content if isinstance(content, bytes) else files.decoded(content, field)).decode()
