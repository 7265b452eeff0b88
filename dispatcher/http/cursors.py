"""Cursors: where the next page of a list begins. What is in one is nobody's business, and may change."""

import binascii
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime, timedelta

import msgspec

from dispatcher.base.errors import Fault
from dispatcher.http.problems import Problem, faulty

_FORM = re.compile(rb"([a-z_]{1,32})((?: [1-9][0-9]{0,18}){1,4})")
_QUERY = "query.cursor"
_NOT_OURS = "is none of this list: take next_cursor from its last answer"
_texts = msgspec.json.Decoder(tuple[str, ...]).decode
# What an id can be, and what all are below.
ID_MAX = 2**63 - 1
# Before everything.
FIRST = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def none_of_ours(path: str = _QUERY) -> Problem:
    """What is said of a cursor that no answer had."""
    return faulty([Fault(path, _NOT_OURS)])


def cursor(noun: str, *last: int) -> str:
    """The cursor of what comes behind these numbers in a list."""
    return urlsafe_b64encode(" ".join((noun, *map(str, last))).encode()).decode().rstrip("=")


def cursor_after(noun: str, name: str) -> str:
    """The cursor of what comes after a name in a list."""
    return urlsafe_b64encode(f"{noun} after {name}".encode()).decode().rstrip("=")


def after(noun: str, text: str | None) -> str:
    """The name that a cursor of this list leads behind; without one, before all of them. Raises Problem."""
    if text is None:
        return ""
    try:
        head, _, name = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4)).decode().partition(" after ")
    except (ValueError, binascii.Error):
        head = name = ""
    if head != noun or not name or "\0" in name or cursor_after(noun, name) != text:
        raise none_of_ours()
    return name


def cursor_after_texts(noun: str, *last: str) -> str:
    """The cursor of what comes after these texts in a list."""
    return cursor_after(noun, msgspec.json.encode(last).decode())


def after_texts(noun: str, text: str | None, count: int) -> tuple[str, ...]:
    """The texts that a cursor of this list leads behind; without one, before all of them. Raises Problem."""
    if text is None:
        return ("",) * count
    try:
        found = _texts(after(noun, text))
    except msgspec.DecodeError:
        found = ()
    # Another text may decode to the same.
    if len(found) != count or any("\0" in one for one in found) or cursor_after_texts(noun, *found) != text:
        raise none_of_ours()
    return found


def behind(noun: str, text: str, count: int, path: str = _QUERY) -> list[int]:
    """The numbers in a cursor of this list, which stands at `path`. Raises Problem."""
    try:
        match = _FORM.fullmatch(urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4)))
    except (ValueError, binascii.Error):
        match = None
    numbers = [int(number) for number in match[2].split()] if match else []
    # Another text may decode to the same.
    if len(numbers) != count or max(numbers) > ID_MAX or cursor(noun, *numbers) != text:
        raise none_of_ours(path)
    return numbers


def below(noun: str, text: str | None) -> int:
    """The id that a cursor leads below; without one, over all of them. Raises Problem."""
    return ID_MAX if text is None else behind(noun, text, 1)[0]


def microseconds(at: datetime) -> int:
    """A time as a number of a cursor."""
    return (at - FIRST) // _MICROSECOND


def moment(number: int) -> datetime:
    """The time that a number of a cursor stands for. One that nobody was given is behind all others."""
    try:
        return FIRST + number * _MICROSECOND
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)
