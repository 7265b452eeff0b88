"""Receipts of Twilio: status callbacks for messages and calls, signed over their URL and their fields.

The URL that a message gives to Twilio ends in the id of its delivery, which the signature covers too.
"""

import hmac
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from urllib.parse import parse_qsl, urlsplit

from dispatcher.features.receipts.providers.receipt import Kind, Receipt, named, number, recipient, words
from dispatcher.features.receipts.providers.request import Accepted, Answer, Forged, Garbled, Provider, Request

PATH = "/receipts/twilio"
DELIVERY_FIELD = "delivery"
SIGNATURE_HEADER = "x-twilio-signature"
FIELDS_MAX = 200
# No signed field is a time: repetitions are recognized for a day, and later ones change nothing.
KEPT_SECONDS = 86_400.0
# 30005: the number does not exist. (30006, a landline or a carrier that cannot be reached, may be temporary.)
DEAD_NUMBERS = frozenset({"30005"})
_PORTS = {"https": 443, "http": 80}

_KINDS: Mapping[str, Kind] = {
    "accepted": "sent",
    "scheduled": "sent",
    "queued": "sent",
    "sending": "sent",
    "sent": "sent",
    "delivered": "delivered",
    "read": "opened",
    "undelivered": "failed",
    "failed": "failed",
    "canceled": "failed",
    # Of calls.
    "initiated": "sent",
    "ringing": "sent",
    "in-progress": "delivered",
    "answered": "delivered",
    "completed": "delivered",
    "busy": "failed",
    "no-answer": "failed",
}


def callback(public_url: str, delivery_id: int) -> str:
    """Return the URL for the callbacks of a message."""
    return f"{public_url.rstrip('/')}{PATH}?{DELIVERY_FIELD}={delivery_id}"


def sign(token: bytes, url: str, fields: Sequence[tuple[str, str]]) -> str:
    """Return the signature of a callback: over its URL and its distinct fields in order."""
    text = url + "".join(name + value for name, value in sorted(set(fields)))
    return b64encode(hmac.digest(token, text.encode("utf-8", "replace"), "sha1")).decode()


def provider(public_url: str, tokens: str) -> Provider:
    """Return the provider of callbacks to this URL, signed with one of the tokens."""
    url = public_url.rstrip("/") + PATH
    keys = [token.encode() for token in tokens.split()]

    def read(request: Request) -> Answer:
        try:
            fields = parse_qsl(
                request.body.decode("ascii"), keep_blank_values=True, errors="replace", max_num_fields=FIELDS_MAX
            )
        except ValueError:
            return Forged("its body is not a form")
        given = request.headers.get(SIGNATURE_HEADER, "").encode("ascii", "replace")
        asked = _urls(f"{url}?{request.query}" if request.query else url)
        ours = [sign(key, one, fields).encode() for key in keys for one in asked]
        # Compare with all keys, so that the time does not tell which key fits.
        if not any([hmac.compare_digest(one, given) for one in ours]):  # noqa: C419 - as said
            return Forged("no signature fits")
        return _answer(request, dict(fields))

    return read


def _urls(url: str) -> tuple[str, ...]:
    """Return a URL with its port and without: some of Twilio's servers sign the first, some the second."""
    parts = urlsplit(url)
    if "@" in parts.netloc:
        return (url,)
    bare = parts.netloc.rpartition(":")[0] if parts.port else parts.netloc
    port = parts.port or _PORTS[parts.scheme]
    return tuple(url.replace(f"//{parts.netloc}", f"//{one}", 1) for one in (bare, f"{bare}:{port}"))


def _answer(request: Request, fields: Mapping[str, str]) -> Answer:
    status = fields.get("MessageStatus") or fields.get("SmsStatus") or fields.get("CallStatus")
    if status is None:
        return Garbled("it has no MessageStatus and no CallStatus")
    event = sha256(request.query.encode("utf-8", "replace") + b"\0" + request.body).hexdigest()
    kind = _KINDS.get(status)
    if kind is None:
        return Accepted(event, kept_seconds=KEPT_SECONDS)
    code = fields.get("ErrorCode", "")
    receipt = Receipt(
        "bounced_hard" if kind == "failed" and code in DEAD_NUMBERS else kind,
        None,
        number(dict(parse_qsl(request.query)).get(DELIVERY_FIELD)),
        None,
        named(fields.get("MessageSid") or fields.get("SmsSid") or fields.get("CallSid")),
        # whatsapp:+49…, and the bare number elsewhere.
        recipient(fields.get("To", "").rpartition(":")[2]),
        words(f"{status} {code}".rstrip() if kind == "failed" else ""),
    )
    return Accepted(event, (receipt,), KEPT_SECONDS)
