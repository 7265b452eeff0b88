"""Standard Webhooks: HMAC-SHA256 over id, time and body, as Svix signs for Resend and as we ask of others."""

import binascii
import hmac
from base64 import b64decode, b64encode
from collections.abc import Sequence

from msgspec import Struct

from dispatcher.features.receipts.providers.request import SKEW_SECONDS, Forged, Request

SECRET_PREFIX = "whsec_"  # noqa: S105 - what every secret begins with
VERSION = "v1,"
# The specification's own name for the headers, and the one that it had before.
PREFIXES = ("webhook-", "svix-")
ID_CHARACTERS_MAX = 255
TIME_DIGITS_MAX = 12
SIGNATURES_MAX = 16


class Signed(Struct, frozen=True):
    """A message that was signed: its id, and when."""

    id: str
    at: int


def keys(secrets: str) -> list[bytes]:
    """The keys of secrets with spaces between them."""
    return [b64decode(secret.removeprefix(SECRET_PREFIX)) for secret in secrets.split()]


def sign(key: bytes, message_id: str, at: int, body: bytes) -> str:
    """The signature of a message."""
    signed = b"%s.%d.%s" % (message_id.encode(), at, body)
    return VERSION + b64encode(hmac.digest(key, signed, "sha256")).decode()


def verify(request: Request, keys: Sequence[bytes]) -> Signed | Forged:
    """Who has signed a request knows one of the keys, and did it now."""
    found = _headers(request)
    if found is None:
        return Forged("a header is missing, or is none")
    message_id, at, given = found
    if abs(request.now - at) > SKEW_SECONDS:
        return Forged("its time is too far from ours")
    ours = [sign(key, message_id, at, request.body)[len(VERSION) :].encode() for key in keys]
    theirs = [one for one in (_decoded(text) for text in given.split(" ")[:SIGNATURES_MAX]) if one]
    # All of them, so that the time tells nobody which one it was.
    if not any([hmac.compare_digest(b64decode(mine), one) for mine in ours for one in theirs]):  # noqa: C419 - as said
        return Forged("no signature fits")
    return Signed(message_id, at)


def _headers(request: Request) -> tuple[str, int, str] | None:
    """The id, the time and the signatures, all by the same name."""
    for prefix in PREFIXES:
        message_id, at, given = (request.headers.get(prefix + name, "") for name in ("id", "timestamp", "signature"))
        if message_id or at or given:
            sound = message_id.isascii() and message_id.isprintable() and 0 < len(message_id) <= ID_CHARACTERS_MAX
            timed = at.isascii() and at.isdigit() and len(at) <= TIME_DIGITS_MAX and str(int(at)) == at
            return (message_id, int(at), given) if sound and timed and "." not in message_id else None
    return None


def _decoded(text: str) -> bytes | None:
    if not text.startswith(VERSION):
        return None
    try:
        return b64decode(text[len(VERSION) :], validate=True)
    except (binascii.Error, ValueError):
        return None
