"""Listing: rows of a list, one more than were asked for, as a page and the cursor of the next one."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from dispatcher.api.cursors import cursor, cursor_after

Row = Mapping[str, Any]
M = TypeVar("M", bound=Struct)


def page(rows: Sequence[Row], limit: int, model: type[M], end: Callable[[Row], str]) -> tuple[list[M], str | None]:
    """The rows that were asked for, and where those behind them begin, if there are any."""
    some = rows[:limit]
    return [msgspec.convert(row, model) for row in some], end(some[-1]) if len(rows) > limit else None


def by_name(noun: str) -> Callable[[Row], str]:
    """Where a list ends that is in the order of names."""
    return lambda row: cursor_after(noun, row["name"])


def by_id(noun: str) -> Callable[[Row], str]:
    """Where a list ends that is in the order of ids."""
    return lambda row: cursor(noun, row["id"])
