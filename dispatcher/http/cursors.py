"""Cursors: where the next page of a list begins. Their content is private and may change."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import msgspec

from dispatcher.base.errors import Fault
from dispatcher.http.problems import Problem, faulty

_QUERY = "query.cursor"
_decode = msgspec.json.Decoder(list[int | str]).decode
# What an id can be at most; all are below it.
ID_MAX = 2**63 - 1
# Before everything.
FIRST = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

T = TypeVar("T", int, str)


def invalid_cursor(path: str = _QUERY) -> Problem:
    """Return the problem of a cursor that no answer of this list had."""
    return faulty([Fault(path, "is not a cursor of this list: take next_cursor from its last answer")])


def cursor(noun: str, *last: int | str) -> str:
    """Return the cursor of what follows these values in a list."""
    return urlsafe_b64encode(msgspec.json.encode((noun, *last))).decode().rstrip("=")


def _read(noun: str, text: str, kind: type[T], count: int, path: str = _QUERY) -> list[T]:
    try:
        head, *values = _decode(urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4)))
    except ValueError as fault:
        raise invalid_cursor(path) from fault
    found = [value for value in values if isinstance(value, kind)]
    # Another text may decode to the same.
    if head != noun or not len(found) == len(values) == count or cursor(noun, *values) != text:
        raise invalid_cursor(path)
    return found


def read_texts(noun: str, text: str | None, count: int) -> tuple[str, ...]:
    """Return the texts in a cursor of this list; empty ones, which precede all, without a cursor. Raises Problem."""
    found = ("",) * count if text is None else tuple(_read(noun, text, str, count))
    if any("\0" in one for one in found):
        raise invalid_cursor()
    return found


def read_name(noun: str, text: str | None) -> str:
    """Return the name in a cursor of this list; "", which precedes all, without a cursor. Raises Problem."""
    return read_texts(noun, text, 1)[0]


def read_numbers(noun: str, text: str, count: int, path: str = _QUERY) -> list[int]:
    """Return the numbers in a cursor of this list, which stands at `path`. Raises Problem."""
    numbers = _read(noun, text, int, count, path)
    if not all(0 < number <= ID_MAX for number in numbers):
        raise invalid_cursor(path)
    return numbers


def read_id(noun: str, text: str | None, path: str = _QUERY) -> int:
    """Return the id in a cursor of this list, at `path`; without a cursor the largest of all. Raises Problem."""
    return ID_MAX if text is None else read_numbers(noun, text, 1, path)[0]


def microseconds(at: datetime) -> int:
    """Return a time as a number of a cursor."""
    return (at - FIRST) // _MICROSECOND


def moment(number: int) -> datetime:
    """Return the time that a number of a cursor stands for; the last of all where there is no such time."""
    try:
        return FIRST + number * _MICROSECOND
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)
