"""Writing: values as JSON, and refusals of what cannot be asked for at all."""

from collections.abc import Sequence

import msgspec

from dispatcher.client.errors import Refused
from dispatcher.errors import Fault

# A Decimal is a number with all its digits.
_encode = msgspec.json.Encoder(decimal_format="number").encode
FAULTY = "faulty-request"
SHOWN_FAULTS = 3


def json_of(value: object, path: str = "$") -> bytes:
    """A value as JSON; bytes are JSON already. Raises Refused."""
    if isinstance(value, bytes):
        return value
    try:
        return _encode(value)
    except (TypeError, ValueError, RecursionError) as fault:
        raise refused([Fault(path, f"is no JSON: {fault}")]) from None


def refused(faults: Sequence[Fault]) -> Refused:
    """A refusal, in words that one can read without the list."""
    some = "; ".join(map(str, faults[:SHOWN_FAULTS])) + ("; …" if faults[SHOWN_FAULTS:] else "")
    return Refused(some, kind=FAULTY, faults=faults)
