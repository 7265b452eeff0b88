"""Listing: what a list has, one more than was asked for, as a page and the cursor of the next one."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from dispatcher.http.cursors import cursor, cursor_after

Row = Mapping[str, Any]
M = TypeVar("M", bound=Struct)
T = TypeVar("T")


def page(rows: Sequence[Row], limit: int, model: type[M], end: Callable[[Row], str]) -> tuple[list[M], str | None]:
    """The rows that were asked for, and where those behind them begin, if there are any."""
    some, more = cut(rows, limit, end)
    return [msgspec.convert(row, model) for row in some], more


def cut(found: Sequence[T], limit: int, end: Callable[[T], str]) -> tuple[Sequence[T], str | None]:
    """As `page`, of what is no row of an answer."""
    return found[:limit], end(found[limit - 1]) if len(found) > limit else None


def by_name(noun: str) -> Callable[[Row], str]:
    """Where a list ends that is in the order of names."""
    return lambda row: cursor_after(noun, row["name"])


def by_id(noun: str) -> Callable[[Row], str]:
    """Where a list ends that is in the order of ids."""
    return lambda row: cursor(noun, row["id"])
