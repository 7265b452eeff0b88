"""Receipts of Twilio: status callbacks for messages and calls, and messages from people, signed over their URL and
their fields.

The URL that a message gives to Twilio ends in the id of its delivery, which the signature covers too.
"""

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from dispatcher.base.values.addresses import Address
from dispatcher.features.receipts.providers.receipt import Kind, Receipt, Reply, named, number, recipient, words
from dispatcher.features.receipts.providers.request import Accepted, Answer, Forged, Garbled, Provider, Request

PATH = "/receipts/twilio"
DELIVERY_FIELD = "delivery"
SIGNATURE_HEADER = "x-twilio-signature"
FIELDS_MAX = 200
# In a message's header: the algorithm of its signature. The first is meant where none is named.
SETTINGS_HEADER = "x-twilio-webhooks-signature-settings"
ALGORITHMS = ("HMAC_SHA1", "HMAC_SHA256")
# With it in the query, the signature covers the URL, and the hash in it the body, which is JSON.
HASH_FIELD = "bodySHA256"
# No signed field is a time: repetitions are recognized for a day, and later ones change nothing.
KEPT_SECONDS = 86_400.0
# A later one would let messages through again to who has stopped them since.
REPLY_KEPT_SECONDS = 30 * 86_400.0
# The number does not exist, cannot take messages, or does not want them. Its channel has the same ones.
DEAD_NUMBERS = frozenset({"21211", "21610", "21614", "21635", "30003", "30005", "30006"})

# Of a message from a person. The query may name the tenant, and the channel where it is not called sms or whatsapp.
RECEIVED, WHATSAPP = "received", "whatsapp:"
TENANT_FIELD, CHANNEL_FIELD = "tenant", "channel"
NUMBER = re.compile(r"\+[1-9][0-9]{3,14}")
CHANNEL = re.compile(r"[a-z][a-z0-9_]{0,31}")
# The words that Twilio heeds by itself. Where they were configured otherwise, OptOutType has STOP or START.
STOPS = frozenset({"STOP", "STOPALL", "UNSUBSCRIBE", "CANCEL", "END", "QUIT", "OPTOUT", "REVOKE"})
STARTS = frozenset({"START", "UNSTOP", "YES"})

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


def receiver_url(public_url: str) -> str:
    """Return the URL for callbacks; a message's has `?delivery=ID` behind it."""
    return public_url.rstrip("/") + PATH


def provider(public_url: str, tokens: str) -> Provider:
    """Return the provider of callbacks to this URL, signed with one of the tokens."""
    # The SDK takes long to import, and no other command needs it.
    from twilio.request_validator import RequestValidator  # noqa: PLC0415 - as said

    url = receiver_url(public_url)
    validators = [RequestValidator(token) for token in tokens.split()]

    def read(request: Request) -> Answer:
        in_query = dict(parse_qsl(request.query))
        try:
            signed = request.body.decode() if HASH_FIELD in in_query else _form(request.body)
        except ValueError:
            return Forged("its body is neither a form nor a text with its hash")
        asked = f"{url}?{request.query}" if request.query else url
        given = request.headers.get(SIGNATURE_HEADER, "")
        algorithm = _algorithm(request.headers.get(SETTINGS_HEADER, ""))
        # Compare with all keys, so that the time does not tell which key fits.
        fits = [algorithm in ALGORITHMS and one.validate(asked, signed, given, algorithm) for one in validators]
        if not any(fits):
            return Forged("no signature fits")
        fields = _json(signed) if isinstance(signed, str) else {name: values[-1] for name, values in signed.items()}
        if fields is None:
            return Garbled("its body is not a JSON object")
        event = sha256(request.query.encode("utf-8", "replace") + b"\0" + request.body).hexdigest()
        if fields.get("SmsStatus") == RECEIVED:
            return _incoming(event, in_query, fields)
        return _answer(event, in_query, fields)

    return read


class _Form(dict[str, list[str]]):
    """The fields of a form, each with all of its values."""

    def getlist(self, name: str) -> list[str]:
        """Return the values of a field: the SDK asks for them by this name."""
        return self[name]


def _form(body: bytes) -> _Form:
    form = _Form()
    pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="replace", max_num_fields=FIELDS_MAX)
    for name, value in pairs:
        form.setdefault(name, []).append(value)
    return form


def _json(text: str) -> dict[str, str] | None:
    """Return the texts of a JSON object."""
    try:
        found = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError):
        return None
    return {name: value for name, value in found.items() if isinstance(value, str)}


def _algorithm(settings: str) -> str:
    """Return the algorithm of a signature: SHA-1, unless the header about it names another one."""
    pairs = (part.partition("=") for part in settings.split(","))
    return next((value.strip().upper() for name, _, value in pairs if name.strip() == "algorithm"), ALGORITHMS[0])


def _incoming(event: str, query: Mapping[str, str], fields: Mapping[str, str]) -> Answer:
    """Read a message of a person, which may be the word by which they stop or start all of a sender's."""
    said = fields.get("OptOutType", "").upper() or fields.get("Body", "").strip().upper()
    sender = fields.get("From", "")
    number_from = sender.removeprefix(WHATSAPP)
    if said not in STOPS | STARTS or not NUMBER.fullmatch(number_from):
        return Accepted(event, kept_seconds=KEPT_SECONDS)
    channel = query.get(CHANNEL_FIELD) or ("whatsapp" if sender.startswith(WHATSAPP) else "sms")
    if not CHANNEL.fullmatch(channel):
        return Garbled("its channel is not a name: correct the URL at Twilio")
    reply = Reply(Address("phone", number_from), channel, said in STARTS, query.get(TENANT_FIELD, ""))
    return Accepted(event, kept_seconds=REPLY_KEPT_SECONDS, reply=reply)


def _answer(event: str, query: Mapping[str, str], fields: Mapping[str, str]) -> Answer:
    status = fields.get("MessageStatus") or fields.get("SmsStatus") or fields.get("CallStatus")
    if status is None:
        return Garbled("it has no MessageStatus and no CallStatus")
    kind = _KINDS.get(status)
    if kind is None:
        return Accepted(event, kept_seconds=KEPT_SECONDS)
    code = fields.get("ErrorCode", "")
    receipt = Receipt(
        "bounced_hard" if kind == "failed" and code in DEAD_NUMBERS else kind,
        None,
        number(query.get(DELIVERY_FIELD)),
        None,
        named(fields.get("MessageSid") or fields.get("SmsSid") or fields.get("CallSid")),
        # whatsapp:+49…, and the bare number elsewhere.
        recipient(fields.get("To", "").rpartition(":")[2]),
        words(f"{status} {code}".rstrip() if kind == "failed" else ""),
    )
    return Accepted(event, (receipt,), KEPT_SECONDS)
