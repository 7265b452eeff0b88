"""The data of a function's answer, in a form that a run can store."""

from collections.abc import Mapping
from typing import Any

# Postgres and templates take far more; what is nested deeper than this was not meant to be read.
DEPTH_MAX = 64
# JSON has numbers of any length, and this system's own do not: as everywhere in JSON, they lose digits then.
_WHOLE_MIN, _WHOLE_MAX = -(2**63), 2**63 - 1
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class Unusable(Exception):  # noqa: N818 - what the data is
    """The data cannot be stored. Its text goes on after `data that`."""


def data_of(said: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The data of an answer: `data` where it has that; all of it where the function knows nothing of our form.

    A value of another kind becomes an object with the member `value`.
    """
    if "data" in said:
        data = said["data"]
    elif "success" in said:
        return None
    else:
        data = said
    if data is None:
        return None
    return {"value": _storable(data, 1)} if not isinstance(data, dict) else _storable(data, 0)


def _storable(value: object, depth: int) -> Any:  # noqa: ANN401 - whatever JSON has
    if depth > DEPTH_MAX:
        raise Unusable(f"is nested more than {DEPTH_MAX} deep")
    match value:
        case str():
            # Neither text nor jsonb can hold it.
            return value.replace("\0", _REPLACEMENT) if "\0" in value else value
        case dict():
            return {_storable(name, depth): _storable(member, depth + 1) for name, member in value.items()}
        case list():
            return [_storable(item, depth + 1) for item in value]
        case int() if not _WHOLE_MIN <= value <= _WHOLE_MAX:
            try:
                return float(value)
            except OverflowError:
                raise Unusable("has a number beyond all bounds") from None
        case _:
            return value
