"""Pages of a list: its rows, one more than was asked for, as a page and the cursor of the next one."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from dispatcher.http.cursors import cursor

Row = Mapping[str, Any]
M = TypeVar("M", bound=Struct)
T = TypeVar("T")


def page(rows: Sequence[Row], limit: int, model: type[M], end: Callable[[Row], str]) -> tuple[list[M], str | None]:
    """Return the rows that were asked for, and the cursor of the next page, if there is one."""
    some, more = cut(rows, limit, end)
    return [msgspec.convert(row, model) for row in some], more


def cut(found: Sequence[T], limit: int, end: Callable[[T], str]) -> tuple[Sequence[T], str | None]:
    """Return a page as `page` does, of values that are not rows of an answer."""
    return found[:limit], end(found[limit - 1]) if len(found) > limit else None


def by_name(noun: str) -> Callable[[Row], str]:
    """Return the cursors of a list in the order of names."""
    return lambda row: cursor(noun, row["name"])


def by_id(noun: str) -> Callable[[Row], str]:
    """Return the cursors of a list in the order of ids."""
    return lambda row: cursor(noun, row["id"])
