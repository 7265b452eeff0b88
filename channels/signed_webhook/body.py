"""The body of a request: the operator's form, filled with a message."""

from functools import partial
from typing import Any

import msgspec

from channels.contract import Envelope
from channels.shared.web.client import delivery_key
from channels.shared.web.post_channel import Unsendable
from channels.signed_webhook.form import Form, Unfillable, is_member

# Of one request. Larger things belong where the receiver can fetch them.
BODY_BYTES_MAX = 8 * 1024 * 1024

_encode = msgspec.json.Encoder(order="deterministic").encode


def body_of(envelope: Envelope, form: Form) -> bytes:
    """The body for one envelope. Unsendable names what it lacks."""
    try:
        body = _encode(form.filled(partial(_value, envelope)))
    except Unfillable as fault:
        raise Unsendable(str(fault)) from None
    except (UnicodeError, RecursionError):
        raise Unsendable("body: has half a character (a lone surrogate), or is nested too deeply; mend it") from None
    if len(body) > BODY_BYTES_MAX:
        raise Unsendable(f"body: is too large: a request has {BODY_BYTES_MAX} bytes at the most; link to it")
    return body


def _value(envelope: Envelope, name: str) -> Any:  # noqa: ANN401 - whatever JSON has
    if match := is_member(name):
        given = envelope.parts if match[1] == "parts" else envelope.options
        if match[2] not in given:
            raise Unfillable(f"{name}: is missing, and the channel's body names it")
        return given[match[2]]
    match name:
        case "id":
            return delivery_key(envelope)
        case "key":
            return envelope.idempotency_key
        case "parts":
            return dict(envelope.parts)
        case _:
            return getattr(envelope, name)
