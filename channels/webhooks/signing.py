"""Signing: HMAC-SHA256 over id, time and body, by every secret that is good now, as Standard Webhooks write it."""

import hmac
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping

SECRET_PREFIX = "whsec_"  # noqa: S105 - what every secret begins with


def headers(message_id: str, at: int, body: bytes, secrets: Iterable[str]) -> Mapping[str, str]:
    """The headers of a message that is sent at a time, in seconds since 1970."""
    signed = b"%s.%d.%s" % (message_id.encode(), at, body)
    keys = (b64decode(secret.removeprefix(SECRET_PREFIX)) for secret in secrets)
    signatures = ("v1," + b64encode(hmac.digest(key, signed, "sha256")).decode() for key in keys)
    return {"webhook-id": message_id, "webhook-timestamp": str(at), "webhook-signature": " ".join(signatures)}
