"""Standard Webhooks: HMAC-SHA256 over id, time and body, as used by Svix (for Resend) and by the generic provider."""

import binascii
import hmac
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct

from dispatcher.features.receipts.providers.receipt import Receipt
from dispatcher.features.receipts.providers.request import (
    SKEW_SECONDS,
    Accepted,
    Answer,
    Forged,
    Garbled,
    Provider,
    Request,
)

SECRET_PREFIX = "whsec_"  # noqa: S105 - what every secret begins with
VERSION = "v1,"
# The specification's own name for the headers, and the one that it had before.
PREFIXES = ("webhook-", "svix-")
ID_CHARACTERS_MAX = 255
TIME_DIGITS_MAX = 12
SIGNATURES_MAX = 16


class Signed(Struct, frozen=True):
    """The id and the time of a signed message."""

    id: str
    at: int


def keys(secrets: str) -> list[bytes]:
    """Return the keys of secrets that are separated by white space."""
    return [b64decode(secret.removeprefix(SECRET_PREFIX)) for secret in secrets.split()]


def provider(secrets: str, receipts: Callable[[bytes], tuple[Receipt, ...]]) -> Provider:
    """Return the provider that signs with one of these secrets and whose bodies `receipts` reads."""
    known = keys(secrets)

    def read(request: Request) -> Answer:
        signed = verify(request, known)
        if isinstance(signed, Forged):
            return signed
        try:
            return Accepted(signed.id, receipts(request.body))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as fault:
            return Garbled(str(fault))

    return read


def sign(key: bytes, message_id: str, at: int, body: bytes) -> str:
    """Return the signature of a message."""
    signed = b"%s.%d.%s" % (message_id.encode(), at, body)
    return VERSION + b64encode(hmac.digest(key, signed, "sha256")).decode()


def verify(request: Request, keys: Sequence[bytes]) -> Signed | Forged:
    """Return the id and time of a request that was signed with one of the keys within SKEW_SECONDS."""
    found = _headers(request)
    if found is None:
        return Forged("a header is missing, or is none")
    message_id, at, given = found
    if abs(request.now - at) > SKEW_SECONDS:
        return Forged("its time is too far from ours")
    ours = [sign(key, message_id, at, request.body)[len(VERSION) :].encode() for key in keys]
    theirs = [one for one in (_decoded(text) for text in given.split(" ")[:SIGNATURES_MAX]) if one]
    # Compare with all keys, so that the time does not tell which key fits.
    if not any([hmac.compare_digest(b64decode(mine), one) for mine in ours for one in theirs]):  # noqa: C419 - as said
        return Forged("no signature fits")
    return Signed(message_id, at)


def _headers(request: Request) -> tuple[str, int, str] | None:
    """Return the id, the time and the signatures, all of headers with the same prefix."""
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
