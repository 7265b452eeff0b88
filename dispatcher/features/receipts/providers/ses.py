"""Receipts of Amazon SES, which come through SNS: signed with the key of a certificate that the configuration has.

Anybody with an account there has messages signed by that key, so that only those of our own topics count. The
certificate that a message names is never fetched, and no link in one is ever followed.
"""

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from dispatcher.features.receipts.providers.certificate import Digest, Key
from dispatcher.features.receipts.providers.receipt import (
    Kind,
    Receipt,
    bounced,
    instant,
    named,
    number,
    recipient,
    words,
)
from dispatcher.features.receipts.providers.request import SKEW_SECONDS, Accepted, Answer, Forged, Provider, Request

DELIVERY_TAG = "delivery"
# SNS retries a signed message for an hour.
AGE_SECONDS = 3_600.0 + SKEW_SECONDS
KEPT_SECONDS = AGE_SECONDS + SKEW_SECONDS + 60.0
RECIPIENTS_MAX = 50
ID_CHARACTERS_MAX = 255

_DIGESTS: Mapping[str, Digest] = {"1": "sha1", "2": "sha256"}
_SIGNED = ("Message", "MessageId", "Subject", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type")
_NOTIFICATION = frozenset({"Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"})
_CONFIRMATION = frozenset({"Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"})
_SIGNED_BY_TYPE: Mapping[str, Collection[str]] = {
    "Notification": _NOTIFICATION,
    "SubscriptionConfirmation": _CONFIRMATION,
    "UnsubscribeConfirmation": _CONFIRMATION,
}
_HOST = re.compile(r"sns\.[a-z0-9-]{2,40}\.amazonaws\.com(\.cn)?")
_KINDS: Mapping[str, Kind] = {
    "Send": "sent",
    "DeliveryDelay": "sent",
    "Delivery": "delivered",
    "Open": "opened",
    "Click": "clicked",
    "Reject": "failed",
    "Rendering Failure": "failed",
}

_decode_fields = msgspec.json.Decoder(dict[str, Any]).decode


class _Mail(Struct, frozen=True, rename="camel"):
    message_id: Any = None
    destination: Any = None
    common_headers: Any = None
    tags: Any = None


class _Notice(Struct, frozen=True, rename="camel"):
    """A notice of SES: the older form has a notificationType, the newer one an eventType."""

    mail: _Mail
    notification_type: Any = None
    event_type: Any = None
    bounce: Any = None
    complaint: Any = None
    delivery: Any = None
    reject: Any = None


_decode_notice = msgspec.json.Decoder(_Notice).decode


def signed_text(fields: Mapping[str, Any]) -> bytes | None:
    """Return the signed part of a message; None where it is not a message of SNS."""
    kind = fields.get("Type")
    wanted = _SIGNED_BY_TYPE.get(kind) if isinstance(kind, str) else None
    if wanted is None:
        return None
    lines = []
    for name in _SIGNED:
        value = fields.get(name)
        if name in wanted and not (name == "Subject" and value is None):
            if not isinstance(value, str):
                return None
            lines += [name, value]
    return ("\n".join(lines) + "\n").encode("utf-8", "surrogatepass")


def provider(topics: str, keys: Collection[Key]) -> Provider:
    """Return the provider of messages of these topics, signed by one of the keys."""
    ours = frozenset(topics.split())

    def read(request: Request) -> Answer:
        try:
            fields = _decode_fields(request.body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return Forged("it is not a message of SNS")
        why = _refusal(fields, keys, ours, request.now)
        if why:
            return Forged(why)
        event = fields["MessageId"]
        if fields["Type"] != "Notification":
            confirm = fields["SubscribeURL"] if fields["Type"] == "SubscriptionConfirmation" else ""
            return Accepted(event, (), KEPT_SECONDS, confirm)
        try:
            return Accepted(event, tuple(_receipts(_decode_notice(fields["Message"]))), KEPT_SECONDS)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            # Another message to the topic, such as the test message of SES.
            return Accepted(event, (), KEPT_SECONDS)

    return read


def _refusal(  # noqa: PLR0911 - one return a reason
    fields: Mapping[str, Any], keys: Collection[Key], topics: Collection[str], now: float
) -> str:
    """Return why a message is refused; empty where it is accepted."""
    text = signed_text(fields)
    digest = _DIGESTS.get(str(fields.get("SignatureVersion")))
    if text is None or digest is None:
        return "it is not a message of SNS"
    if not _is_of_amazon(fields.get("SigningCertURL")):
        return "its certificate is not at a host of SNS"
    try:
        signature = b64decode(str(fields.get("Signature")), validate=True)
    except (Error, ValueError):
        return "its signature is not base64"
    if not any(key.has_signed(text, signature, digest) for key in keys):
        return "no configured certificate fits the signature: fetch the one at its SigningCertURL if SNS has changed it"
    # The fields below are signed.
    if fields["TopicArn"] not in topics:
        return "its topic is not configured"
    at = instant(fields["Timestamp"])
    if at is None or not -SKEW_SECONDS <= now - at.timestamp() <= AGE_SECONDS:
        return "its time is too far from ours"
    if not 0 < len(fields["MessageId"]) <= ID_CHARACTERS_MAX or not fields["MessageId"].isprintable():
        return f"its MessageId must have 1 to {ID_CHARACTERS_MAX} printable characters"
    return ""


def _is_of_amazon(url: object) -> bool:
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        named = parts.scheme == "https" and parts.port in (None, 443) and "@" not in parts.netloc
        return named and _HOST.fullmatch(parts.hostname or "") is not None and parts.path.endswith(".pem")
    except ValueError:
        return False


def _receipts(notice: _Notice) -> list[Receipt]:
    """Return a receipt for each recipient of a notice: our mails have one."""
    said = notice.event_type or notice.notification_type
    kind = _KINDS.get(str(said))
    if said == "Bounce":
        kind = bounced(notice.bounce, "bounceType")
    elif said == "Complaint":
        kind = _complained(notice.complaint)
    if kind is None:
        return []
    mail = notice.mail
    headers = mail.common_headers if isinstance(mail.common_headers, dict) else {}
    names = named(mail.message_id, headers.get("messageId"))
    tag = mail.tags.get(DELIVERY_TAG) if isinstance(mail.tags, dict) else None
    delivery = number(tag[0]) if isinstance(tag, list) and tag else None
    about = next((one for one in (notice.bounce, notice.complaint, notice.delivery) if isinstance(one, dict)), {})
    at = instant(about.get("timestamp"))
    return [
        Receipt(kind, at, delivery, None, names, recipient(address), why)
        for address, why in _whom(notice, about)[:RECIPIENTS_MAX]
    ]


def _complained(complaint: object) -> Kind:
    """Return the kind of a complaint: `not-spam` is feedback that the mail was moved out of the spam folder."""
    not_spam = isinstance(complaint, dict) and complaint.get("complaintFeedbackType") == "not-spam"
    return "delivered" if not_spam else "complained"


def _whom(notice: _Notice, about: Mapping[str, Any]) -> list[tuple[object, str]]:
    """Return the recipients that a notice is about, each with the reason, if any."""
    people = about.get("bouncedRecipients") or about.get("complainedRecipients")
    if isinstance(people, list):
        said = [about.get(field) for field in ("bounceType", "bounceSubType", "complaintFeedbackType")]
        return [
            (one.get("emailAddress"), words(*said, one.get("diagnosticCode")))
            for one in people
            if isinstance(one, dict)
        ]
    reason = notice.reject.get("reason") if isinstance(notice.reject, dict) else ""
    destination = about.get("recipients") or notice.mail.destination
    return [(one, words(str(reason or ""))) for one in destination] if isinstance(destination, list) else []
