"""Answers of a receiver, judged as its options say: by the status, or by a place in the JSON of a 2xx."""

from typing import Any

import msgspec

from channels.contract import Accepted, Envelope, Refused, RetryAfter, Throttled, Unknown, Verdict
from channels.shared.web.answers import TOO_MANY, asked_wait, is_gateway_error, is_temporary, succeeded
from channels.shared.web.client import Answer, delivery_key
from channels.shared.web.redaction import redacted, texts
from channels.signed_webhook.options import SignedWebhookOptions

# Where a 429 says nothing about time.
LIMIT_SECONDS = 1.0
ID_CHARACTERS_MAX = 255
UNAUTHORIZED = 401
_MISSING = object()


def judged(envelope: Envelope, answer: Answer, options: SignedWebhookOptions) -> Verdict:
    if succeeded(answer):
        return _first(envelope, _succeeded(envelope, answer, options), options)
    if answer.status == TOO_MANY:
        wait = asked_wait(answer)
        return Throttled(LIMIT_SECONDS if wait is None else wait)
    if is_gateway_error(answer):
        return Unknown(f"answered with {answer.status} by a gateway")
    reason = f"answered with {answer.status}"
    if is_temporary(answer):
        return RetryAfter(reason, asked_wait(answer))
    return _first(envelope, Refused(reason), options)


def _succeeded(envelope: Envelope, answer: Answer, options: SignedWebhookOptions) -> Verdict:
    said = _json(answer)
    if options.success_pointer:
        value = at(said, options.success_pointer)
        if value is _MISSING:
            return Unknown(f"answered with {answer.status} and without {options.success_pointer}")
        word = _word(value)
        if word not in options.success_values.split():
            secrets = [envelope.recipient, options.authorization, *texts(envelope.parts, envelope.options)]
            reason = f"answered with {answer.status}, and {options.success_pointer} says: {redacted(word, secrets)}"
            return Refused(reason.removesuffix(": "))
    return Accepted(_message_id(answer, said, options) or delivery_key(envelope))


def _first(envelope: Envelope, verdict: Verdict, options: SignedWebhookOptions) -> Verdict:
    """A refusal of one attempt says nothing about those before it, which a key would have it speak for."""
    if isinstance(verdict, Refused) and envelope.attempt > 1 and options.key_seconds:
        return RetryAfter(verdict.reason)
    return verdict


def _message_id(answer: Answer, said: object, options: SignedWebhookOptions) -> str:
    """The receiver's own id of the message; empty where it gives none."""
    found = answer.headers.get(options.id_header.lower(), "") if options.id_header else ""
    if not found and options.id_pointer:
        value = at(said, options.id_pointer)
        found = "" if value is _MISSING else _word(value)
    return found[:ID_CHARACTERS_MAX] if found.isprintable() else ""


def at(document: object, pointer: str) -> object:
    """The value at a JSON pointer (RFC 6901)."""
    found: Any = document
    for token in pointer.split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isdecimal() and name.isascii() and int(name) < len(found):
            found = found[int(name)]
        else:
            return _MISSING
    return found


def _word(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _json(answer: Answer) -> object:
    try:
        return msgspec.json.decode(answer.body or b"")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _MISSING
