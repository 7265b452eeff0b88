"""The functions of compiled templates: the library's rules for texts, paths, comparisons and loops.

Values are JSON (dict, list, str, int, float, bool, None) and what Liquid makes of it (ranges, pairs, escaped texts).
Each function here answers what the library answers, or raises: then the library renders the part again.
"""

from collections.abc import Sequence
from typing import Any, Final, TypeGuard

from liquid.builtin.expressions.primitive import Blank, Empty
from liquid.limits import to_int
from liquid.stringify import to_liquid_string
from markupsafe import Markup, _escape_inner  # type: ignore[attr-defined]  # escape() takes 20 times as long
from msgspec import UNSET

from dispatcher.liquid.render_limits import ITEMS_MAX as LIST_ITEMS_MAX

# Past this the library is asked, which counts what such values cost.
TEXT_MAX: Final = 4_096
ITEMS_MAX: Final = 256
escape_text = _escape_inner


class Unsure(Exception):  # noqa: N818 - as the errors of the house
    """Only the library knows what becomes of this."""


# Stands for a variable that does not exist, or not yet.
MISSING: Final = UNSET


def plain(value: Any) -> str:  # noqa: ANN401 - whatever a template has
    """The text of another value, in a part that does not escape."""
    if type(value) is int:
        return str(value)
    return str(to_liquid_string(value, autoescape=False))


def escaped(value: Any) -> str:  # noqa: ANN401 - as above
    """The same in a part that escapes; escaped texts stay as they are."""
    if type(value) is Markup:
        return value
    if type(value) is int:
        return str(value)
    return to_liquid_string(value, autoescape=True)


def marked(text: str) -> Markup:
    """A plain text, escaped."""
    return Markup(escape_text(text))  # noqa: S704 - it is escaped


def item(value: Any, key: Any) -> Any:  # noqa: ANN401 - as above
    """A step of a path that is more than a key in a dict."""
    if isinstance(value, dict):
        if key in value:
            return value[key]
        if key == "size":
            return len(value)
        if key == "first" and value:
            return next(iter(value.items()))
    elif isinstance(value, list | tuple | range):
        if key == "size":
            return len(value)
        if isinstance(key, int) or key in {"first", "last"}:
            return value[key if isinstance(key, int) else 0 if key == "first" else -1]
    elif isinstance(value, str) and key == "size":
        return len(value)
    raise Unsure


def present(value: Any) -> Any:  # noqa: ANN401 - as above
    """A variable that may have been assigned."""
    if value is MISSING:
        raise Unsure
    return value


def is_true(value: Any) -> bool:  # noqa: ANN401 - as above
    """Whether a condition holds."""
    return value is not None and value is not False


def equal(left: Any, right: Any) -> bool:  # noqa: ANN401 - as above
    """Whether two values are the same; true is not 1."""
    if isinstance(right, Empty | Blank):
        left, right = right, left
    for value in (left, right):
        if isinstance(value, list | dict | tuple) and len(value) > ITEMS_MAX:
            raise Unsure
    if isinstance(left, str) and len(left) > TEXT_MAX:
        raise Unsure
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float)


def less(left: Any, right: Any) -> bool:  # noqa: ANN401 - as above
    """Whether one value stands before another."""
    if isinstance(left, str) and isinstance(right, str):
        return left < right
    if _is_number(left) and _is_number(right):
        return left < right
    if left is None or right is None:
        return False
    raise Unsure


def at_most(left: Any, right: Any) -> bool:  # noqa: ANN401 - as above
    """Whether one value stands before another or is the same."""
    if isinstance(left, str) and isinstance(right, str):
        return left <= right
    if isinstance(left, bool) or isinstance(right, bool):
        return False
    if _is_number(left) and _is_number(right):
        return left <= right
    if left is None or right is None:
        return False
    return equal(left, right)


def contains(left: Any, right: Any) -> bool:  # noqa: ANN401 - as above
    """Whether a text or a list has something in it."""
    if not (is_true(left) and is_true(right)):
        return False
    if isinstance(left, str) and isinstance(right, str | int | float) and len(left) <= TEXT_MAX:
        return str(right) in left
    if isinstance(left, list | tuple | dict | range) and len(left) <= ITEMS_MAX:
        return right in left
    raise Unsure


def _end(value: object) -> int:
    try:
        return to_int(value)
    except (ValueError, TypeError):
        return 0


def span(start: object, stop: object) -> range:
    """A range with both ends; what is not a number counts as 0."""
    first, last = _end(start), _end(stop)
    return range(0) if first > last else range(first, last + 1)


def items(value: Any) -> Sequence[Any]:  # noqa: ANN401 - as above
    """The items of a loop."""
    if isinstance(value, list | tuple | range):
        return value
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, str):
        return [value] if value else ()
    if value is None or isinstance(value, int | float):
        return ()
    raise Unsure


def window(value: Sequence[Any], limit: object, offset: object, *, backwards: bool) -> Sequence[Any]:
    """The items that a loop's limit and offset leave, where it has them; the last first where it runs backwards."""
    start = 0 if offset is MISSING else to_int(offset)
    stop = None if limit is MISSING else to_int(limit) + start
    last = min(stop or len(value), len(value))
    if last < 0 or last > LIST_ITEMS_MAX:
        raise Unsure
    left = value[min(max(start, 0), len(value)) : last]
    return left[::-1] if backwards else left
