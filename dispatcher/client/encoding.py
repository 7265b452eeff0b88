"""Encoding: values as JSON, and refusals of what cannot be encoded."""

import math
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from dispatcher.base.errors import Fault
from dispatcher.base.values import traceparent
from dispatcher.client.errors import Refused

# A Decimal is a number with all its digits.
_encode = msgspec.json.Encoder(decimal_format="number").encode
FAULTY = "faulty-request"
SHOWN_FAULTS = 3


def json_of(value: object, path: str = "$") -> bytes:
    """Return a value as JSON; bytes are JSON already. Raises Refused."""
    if isinstance(value, bytes):
        return value
    try:
        found = _encode(value)
        if b"null" in found and _has_nonfinite(value):
            raise refused([Fault(path, "has a NaN or an infinite number, which JSON cannot have")])
    except Refused:
        raise
    except (TypeError, ValueError, RecursionError) as fault:
        raise refused([Fault(path, f"is not JSON: {fault}")]) from None
    return found


def _has_nonfinite(value: object) -> bool:
    """Whether there is a NaN or an infinity in a value, which would be written as null."""
    match value:
        case float():
            return not math.isfinite(value)
        case Struct():
            return any(map(_has_nonfinite, msgspec.structs.astuple(value)))
        case Mapping():
            return any(map(_has_nonfinite, value.values()))
        case list() | tuple():
            return any(map(_has_nonfinite, value))
        case _:
            return False


def checked(given: str | None) -> str | None:
    """Return a traceparent. Raises Refused: over HTTP a malformed one could be another header."""
    if given is not None and not traceparent.is_traceparent(given):
        raise refused([Fault("$.traceparent", traceparent.WORDS)])
    return given


def refused(faults: Sequence[Fault]) -> Refused:
    """Return a refusal whose message has the first faults."""
    some = "; ".join(map(str, faults[:SHOWN_FAULTS])) + ("; …" if faults[SHOWN_FAULTS:] else "")
    return Refused(some, kind=FAULTY, faults=faults)
