"""The receiver's side of Standard Webhooks, written from their specification and from nothing of the program's."""

import base64
import hashlib
import hmac
import json
from collections.abc import Collection
from typing import Any

from tests.channels.shared.web.fake_server import Request

TOLERANCE_SECONDS = 300


def verify(request: Request, secret: str, now: float) -> dict[str, Any]:
    """What an event says, after seeing to it that who knows the secret has sent it just now."""
    require_signed(request, secret, now)
    said: dict[str, Any] = json.loads(request.body)
    assert set(said) == {"type", "timestamp", "data"}
    return said


def require_signed(request: Request, secret: str, now: float) -> None:
    """See to it that who knows the secret has sent a message just now."""
    message_id, timestamp, given = (request.headers[f"webhook-{name}"] for name in ("id", "timestamp", "signature"))
    assert message_id
    assert "." not in message_id
    assert abs(int(timestamp) - now) <= TOLERANCE_SECONDS
    assert secret.startswith("whsec_")
    key = base64.b64decode(secret[len("whsec_") :], validate=True)
    assert 24 <= len(key) <= 64
    content = message_id.encode() + b"." + timestamp.encode() + b"." + request.body
    expected = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    versions = [one.split(",", 1) for one in given.split(" ")]
    assert any(version == "v1" and hmac.compare_digest(expected, mac) for version, mac in versions), "it is forged"


def signatures(request: Request) -> Collection[str]:
    """The signatures that a message carries."""
    return request.headers["webhook-signature"].split(" ")
