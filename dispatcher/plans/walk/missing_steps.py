"""The results of steps by number: `step_N_result` and `step_N_error`, N from 0, may be read though they are absent.

A step that was passed over or has failed gives no result, and one that has not failed gives no error. What is absent is
fill_missing in as null: that renders as empty and does not hold in a condition, where an empty text would.
"""

import re
from collections.abc import Iterable
from typing import Any, Final

from msgspec import UNSET

# What every such name begins with: a text without it needs no second look.
STEP: Final = "step_"
_OF_STEP: Final = re.compile(r"step_(0|[1-9][0-9]{0,5})_(result|error)")
# Items that stand before one that is read by its number, where there are none; and steps of one path.
ITEMS_MAX: Final = 100
PATH_STEPS_MAX: Final = 64

Path = tuple[str | int, ...]


def step_of(name: str | int) -> int | None:
    """The number of the step whose result or error has this name; None for any other name."""
    found = _OF_STEP.fullmatch(name) if isinstance(name, str) else None
    return int(found[1]) if found else None


def is_error(name: str) -> bool:
    """Whether such a name is that of an error."""
    return name.endswith("_error")


def fill_missing(values: dict[str, Any], paths: Iterable[Path]) -> dict[str, Any]:
    """The values, with null under each path that leads nowhere; what is given is shared and never changed."""
    for path in paths:
        if not _is_there(values, path):
            values = _put(values, path, 0)
    return values


def _is_there(value: Any, path: Path) -> bool:  # noqa: ANN401 - JSON
    try:
        for step in path:
            value = value[step]
    except (LookupError, TypeError):
        return False
    return True


def _put(value: Any, path: Path, at: int) -> Any:  # noqa: ANN401 - JSON
    """The value with null at the end of the path; as it is where something else stands in the way."""
    if at == len(path):
        return None if value is UNSET else value
    step = path[at]
    if isinstance(step, int) and (isinstance(value, list) or value is None or value is UNSET):
        items = list(value) if isinstance(value, list) else []
        if not 0 <= step < max(ITEMS_MAX, len(items)):
            return items
        items.extend([None] * (step + 1 - len(items)))
        items[step] = _put(items[step], path, at + 1)
        return items
    if isinstance(value, dict) or value is None or value is UNSET:
        given = value if isinstance(value, dict) else {}
        return {**given, step: _put(given.get(step, UNSET), path, at + 1)}
    return value
