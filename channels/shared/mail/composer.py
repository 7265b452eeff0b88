"""The composer: an envelope becomes the bytes of one message, the same ones on every attempt, on every machine.

What is the same for all messages of a sender and its headers is compiled once (`headers.Head`); each delivery puts in
its recipient, subject, date, id and parts. Nothing here reads a clock or is random: the date comes with the delivery,
the Message-ID and the boundaries are derived from what identifies it. A boundary cannot occur in what it separates,
whoever its author is: see `bodies`.

    mixed                 where there are attachments
      alternative         where there are a text and an html
        text
        related           where there are inline images
          html
          images
      attachments
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any

from msgspec import Struct

from channels.contract import Envelope
from channels.shared.mail import addresses
from channels.shared.mail.attachments import Files
from channels.shared.mail.bodies import text_part
from channels.shared.mail.errors import MailFault
from channels.shared.mail.header_encoding import LINE_MAX, one_line, unstructured
from channels.shared.mail.headers import Head, compile_head
from channels.shared.mail.message_id import message_identity
from channels.shared.mail.plain_text import plain_text
from channels.shared.mail.settings import MailSettings

HEADS_CACHED_MAX = 1_024
DATES_CACHED_MAX = 4_096
SUBJECT_ROOM = LINE_MAX - len("Subject: ")
# A URL is not folded, and its line has 998 bytes at the most.
URL_CHARACTERS_MAX = 900
# A day of either end may be another year in UTC.
_YEARS = range(1971, 9_999)

_NOT_OURS = {
    "cc": "a delivery goes to one recipient; write a delivery for each",
    "bcc": "a delivery goes to one recipient; write a delivery for each",
    "to": "the recipient is the delivery's own; leave it out",
    "subject": "the subject is a part of the template; leave it out",
    "attachment": "is called attachments; rename it",
}
_identified_by = attrgetter("tenant_id", "workspace_id", "idempotency_key", "delivery_id", "dated", "recipient")
_HEAD_OPTIONS = ("from", "reply_to", "headers")


class Composed(Struct, frozen=True, gc=False):
    """One message as it goes over the wire: lines that end in CRLF, the last one too, and no dots stuffed."""

    sender: str
    recipient: str
    domain: str
    data: bytes
    eight_bit: bool
    smtputf8: bool


class Composer:
    """Makes messages. It keeps heads, and files that it has encoded; both within bounds."""

    def __init__(self, settings: MailSettings) -> None:
        self._settings = settings
        self._files = Files(settings.attachments_max, settings.message_bytes_max)
        self._heads: dict[object, Head] = {}
        self._plain = compile_head(settings, {}) if settings.sender else None

    def compose(self, envelope: Envelope) -> Composed:
        """The message of a delivery, or a MailFault that says what is wrong with it."""
        options = envelope.options
        head = self._head(options) if options else self._plain or compile_head(self._settings, options)
        to = addresses.parse(envelope.recipient, "recipient")
        subject = _subject(envelope.parts)
        identity = message_identity(*_identified_by(envelope))
        body = self._body(envelope.parts, options, identity)
        unsubscribe = "".join(f"{name}: {value}\r\n" for name, value in unsubscribe_headers(options).items())
        text = (
            f"Date: {_date(envelope.dated, options)}\r\n{head.opening}To: {to.header}\r\nSubject: {subject}\r\n"
            f"Message-ID: <{identity}@{head.domain}>\r\n{head.closing}{unsubscribe}{body}"
        )
        # Everything but an address that needs SMTPUTF8 was encoded: what else is not ASCII cannot get out.
        smtputf8 = head.smtputf8 or to.smtputf8
        data = text.encode("utf-8" if smtputf8 else "ascii")
        if len(data) > self._settings.message_bytes_max:
            raise self._too_large("message")
        return Composed(head.sender, to.spec, to.domain, data, smtputf8, smtputf8)

    def _head(self, options: Mapping[str, Any]) -> Head:
        refuse_unsupported_options(options)
        if self._plain and not any(name in options for name in _HEAD_OPTIONS):
            return self._plain
        key = tuple(_frozen(options.get(name)) for name in _HEAD_OPTIONS)
        head = self._heads.get(key)
        if head is None:
            head = compile_head(self._settings, options)
            if len(self._heads) >= HEADS_CACHED_MAX:
                self._heads.pop(next(iter(self._heads)))
            self._heads[key] = head
        return head

    def _body(self, parts: Mapping[str, str], options: Mapping[str, Any], identity: str) -> str:
        """Everything from the first Content-Type on."""
        text, html = parts.get("text", ""), parts.get("html", "")
        # Encoding makes nothing shorter: what is too large already is not looked at any further.
        if len(text) + len(html) > self._settings.message_bytes_max:
            raise self._too_large("html" if len(html) > len(text) else "text")
        inline, attachments = (options.get("inline"), options.get("attachments")) if options else (None, None)
        if inline and not html:
            raise MailFault("options.inline", "needs an html part that shows the images; attach them instead")
        if not html:
            if not text:
                raise MailFault("template", "has neither a text nor an html with anything in it; write one")
            body = text_part("text/plain", text, "text")
        else:
            body = text_part("text/html", html, "html")
            if inline:
                images = self._files.parts(inline, "inline")
                body = _multipart('related; type="text/html"', f"{identity}r", [body, *images])
            if not text and self._settings.text_from_html:
                text = plain_text(html)
            if text:
                body = _multipart("alternative", f"{identity}a", [text_part("text/plain", text, "text"), body])
        if attachments:
            body = _multipart("mixed", f"{identity}m", [body, *self._files.parts(attachments, "attachment")])
        return body

    def _too_large(self, field: str) -> MailFault:
        limit = self._settings.message_bytes_max
        return MailFault(field, f"is too large: a message has {limit} bytes at the most, encoded; shorten it, or link")


def _multipart(kind: str, boundary: str, parts: list[str]) -> str:
    """Parts between boundaries. Each part ends in a CRLF, and the one before a boundary belongs to that."""
    between = f"\r\n--=_{boundary}\r\n"
    return (
        f'Content-Type: multipart/{kind};\r\n boundary="=_{boundary}"\r\n'
        f"{between}{between.join(parts)}\r\n--=_{boundary}--\r\n"
    )


def _subject(parts: Mapping[str, str]) -> str:
    """The subject, folded. Line breaks in it become spaces: a template ends in one more often than not."""
    subject = parts.get("subject", "")
    if len(subject) > SUBJECT_ROOM or not (subject.isascii() and subject.isprintable()) or "=?" in subject:
        subject = unstructured("Subject", one_line(subject, "subject"))
    else:
        subject = subject.strip(" ")
    if not subject:
        raise MailFault("subject", "is missing or empty; give the template one")
    return subject


@lru_cache(maxsize=DATES_CACHED_MAX)
def _shown(seconds: int) -> str:
    return format_datetime(datetime.fromtimestamp(seconds, UTC))


def _date(dated: int, options: Mapping[str, Any]) -> str:
    """The delivery's own time, unless its options name another."""
    given = options.get("date") if options else None
    if given is None:
        return _shown(dated)
    try:
        moment = datetime.fromisoformat(given)
    except (TypeError, ValueError):
        moment = None
    if moment is None or moment.tzinfo is None or moment.year not in _YEARS:
        raise MailFault("options.date", "is not a time with its offset; write it like 2026-01-31T09:30:00+01:00")
    return _shown(int(moment.replace(microsecond=0).timestamp()))


def refuse_unsupported_options(options: Mapping[str, Any]) -> None:
    """Refuse options that would be expected to do what they do not."""
    if not _NOT_OURS.keys().isdisjoint(options):
        name = next(name for name in options if name in _NOT_OURS)
        raise MailFault(f"options.{name}", _NOT_OURS[name])


def unsubscribe_headers(options: Mapping[str, Any]) -> dict[str, str]:
    """The headers of one-click unsubscription (RFC 8058)."""
    url = options.get("list_unsubscribe") if options else None
    if url is None:
        return {}
    field = "options.list_unsubscribe"
    if not isinstance(url, str) or not url.startswith("https://") or len(url) == len("https://"):
        raise MailFault(field, "is not a https:// URL; one-click unsubscription needs one")
    if len(url) > URL_CHARACTERS_MAX:
        raise MailFault(field, f"has more than {URL_CHARACTERS_MAX} characters; make it shorter")
    if not (url.isascii() and url.isprintable()) or not _NOT_IN_URLS.isdisjoint(url):
        raise MailFault(field, "has a sign that a URL cannot have; percent-encode it")
    return {"List-Unsubscribe": f"<{url}>", "List-Unsubscribe-Post": "List-Unsubscribe=One-Click"}


_NOT_IN_URLS = frozenset(' <>"\\^`{|}')


def _frozen(value: object) -> object:
    """A value as a key, whatever it is: equal only to what means the same."""
    if isinstance(value, Mapping):
        return tuple((name, _frozen(one)) for name, one in value.items())
    if isinstance(value, list | tuple):
        return (list, *map(_frozen, value))
    return value if isinstance(value, str | None) else (type(value), str(value))
