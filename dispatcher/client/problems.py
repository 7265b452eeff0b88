"""Problems: an answer that is not what was asked for, as the error that is raised of it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TypeVar

import msgspec
from msgspec import Struct

from dispatcher.base.errors import Fault
from dispatcher.client.errors import (
    Changed,
    ClientError,
    Conflict,
    Forbidden,
    KeyReused,
    NotFound,
    Overloaded,
    Refused,
    TimedOut,
    TooMany,
    Unauthenticated,
    Unavailable,
    Unexpected,
)

KIND_PREFIX = "urn:dispatcher:problem:"
_REQUEST_ID_CHARACTERS_MAX = 64

T = TypeVar("T")
_OVERLOADED = "overloaded"
_BY_STATUS: Mapping[int, type[ClientError]] = {
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    412: Changed,
    422: KeyReused,
    429: TooMany,
    502: Unavailable,
    503: Unavailable,
    504: TimedOut,
}
# What the server says where it has no such path, and never of a thing that is not there: that one it names.
_NO_PATH = "Not Found"
# What a proxy before it may say as well, in words of its own.
_ANYBODYS = frozenset({401, 403, 413, 429, 502, 503, 504})
_CLIENTS_FAULT = range(400, 500)
_REDIRECT = range(300, 400)


class _Document(Struct, frozen=True):
    """A problem as it is sent."""

    type: str
    detail: str
    request_id: str | None = None
    faults: tuple[Fault, ...] = ()
    more_faults: int = 0
    answer: str = ""


def problem(status: int, headers: Mapping[str, str], body: bytes) -> ClientError:
    """The error that an answer stands for. Names of headers are in lower case."""
    document = _read(body)
    retry_after = _seconds(headers.get("retry-after"))
    if document is not None:
        kind = document.type.removeprefix(KIND_PREFIX)
        if document.detail == _NO_PATH:
            words = f"{status}: Dispatcher has no such path there; is the address right?"
            return Unexpected(words, status=status, kind=kind, request_id=document.request_id)
        return _which(status, kind)(
            document.detail,
            status=status,
            kind=kind,
            faults=document.faults,
            more_faults=document.more_faults,
            request_id=document.request_id,
            retry_after=retry_after,
            answer=document.answer,
        )
    request_id = headers.get("x-request-id", "")[:_REQUEST_ID_CHARACTERS_MAX] or None
    if status in _ANYBODYS:
        words = f"{status} ({HTTPStatus(status).phrase}), by what stands before Dispatcher"
        return _which(status, None)(words, status=status, request_id=request_id, retry_after=retry_after)
    if status in _REDIRECT:
        words = f"{status}: it leads elsewhere, where the key is not sent; is the address right?"
    else:
        words = f"{status}, and not by Dispatcher; is the address right?"
    return Unexpected(words, status=status, request_id=request_id)


def _read(body: bytes) -> _Document | None:
    document = _decode(body, _Document)
    return document if document is not None and document.type.startswith(KIND_PREFIX) else None


def _decode(body: bytes, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _which(status: int, kind: str | None) -> type[ClientError]:
    if kind == _OVERLOADED:
        return Overloaded
    return _BY_STATUS.get(status, Refused if status in _CLIENTS_FAULT else Unexpected)


def _seconds(text: str | None) -> float | None:
    """A Retry-After in seconds: it is a number of them, or a date."""
    if text is None:
        return None
    if text.isascii() and text.isdecimal():
        return float(text[:9])
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - datetime.now(UTC).timestamp(), 0.0)
