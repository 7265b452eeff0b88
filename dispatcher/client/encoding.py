"""Writing: values as JSON, and refusals of what cannot be asked for at all."""

import math
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from dispatcher.base.errors import Fault
from dispatcher.client.errors import Refused

# A Decimal is a number with all its digits.
_encode = msgspec.json.Encoder(decimal_format="number").encode
FAULTY = "faulty-request"
SHOWN_FAULTS = 3


def json_of(value: object, path: str = "$") -> bytes:
    """A value as JSON; bytes are JSON already. Raises Refused."""
    if isinstance(value, bytes):
        return value
    try:
        found = _encode(value)
        if b"null" in found and _has_no_number(value):
            raise refused([Fault(path, "has a number that is none: NaN, or infinite")])
    except Refused:
        raise
    except (TypeError, ValueError, RecursionError) as fault:
        raise refused([Fault(path, f"is no JSON: {fault}")]) from None
    return found


def _has_no_number(value: object) -> bool:
    """Whether somewhere in it is what would be written as null, and is none."""
    match value:
        case float():
            return not math.isfinite(value)
        case Struct():
            return any(map(_has_no_number, msgspec.structs.astuple(value)))
        case Mapping():
            return any(map(_has_no_number, value.values()))
        case list() | tuple():
            return any(map(_has_no_number, value))
        case _:
            return False


def refused(faults: Sequence[Fault]) -> Refused:
    """A refusal, in words that one can read without the list."""
    some = "; ".join(map(str, faults[:SHOWN_FAULTS])) + ("; …" if faults[SHOWN_FAULTS:] else "")
    return Refused(some, kind=FAULTY, faults=faults)
