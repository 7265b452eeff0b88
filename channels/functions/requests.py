"""Requests: what a delivery sends to a function, checked before anything leaves."""

import msgspec

from channels.contract import Envelope
from channels.shared.web.posts import Unsendable

# What a function is sent. More than that belongs where the function can fetch it.
REQUEST_BYTES_MAX = 1024 * 1024

_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def request_of(envelope: Envelope) -> bytes:
    """The part `body` as it is, which must be a JSON object."""
    text = envelope.parts.get("body", "")
    if not text.strip():
        raise Unsendable('body: is missing or empty; write a JSON object, such as {"action": …, "payload": …}')
    try:
        body = text.encode()
    except UnicodeEncodeError:
        raise Unsendable("body: has half a character (a lone surrogate); remove it") from None
    if len(body) > REQUEST_BYTES_MAX:
        raise Unsendable(f"body: is too large: a function is sent {REQUEST_BYTES_MAX} bytes at the most")
    try:
        _decode(body)
    except RecursionError:
        raise Unsendable("body: is nested too deeply") from None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise Unsendable(
            "body: is no JSON object; in a template put texts between quotes with the filter escapejs"
        ) from None
    return body


def seconds_of(envelope: Envelope, seconds_max: float) -> float:
    """How long the call may take: the delivery can ask for less than the function has."""
    asked = envelope.options.get("timeout_seconds", seconds_max)
    # A bool is an int, and NaN is not over 0.
    if isinstance(asked, bool) or not isinstance(asked, int | float) or not asked > 0:
        raise Unsendable("options.timeout_seconds: expected a number over 0")
    return min(float(asked), seconds_max)
