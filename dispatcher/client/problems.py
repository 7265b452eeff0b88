"""Problems: an unsuccessful answer, as the error that is raised."""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus

import msgspec
from msgspec import Struct, structs

from dispatcher.base.errors import Fault
from dispatcher.client import errors

KIND_PREFIX = "urn:dispatcher:problem:"
_REQUEST_ID_CHARACTERS_MAX = 64

_OVERLOADED = "overloaded"
_BY_STATUS: Mapping[int, type[errors.ClientError]] = {
    401: errors.Unauthenticated,
    403: errors.Forbidden,
    404: errors.NotFound,
    409: errors.Conflict,
    412: errors.Changed,
    421: errors.OtherCell,
    422: errors.KeyReused,
    429: errors.TooMany,
    502: errors.Unavailable,
    503: errors.Unavailable,
    504: errors.TimedOut,
}
# The server's detail for an unknown path; for an unknown thing it names the thing.
_NO_PATH = "Not Found"
# A proxy before the server may answer with these, too.
_OF_PROXIES = frozenset({401, 403, 413, 429, 502, 503, 504})


class _Document(Struct, frozen=True):
    """A problem as it is sent."""

    type: str
    detail: str
    request_id: str | None = None
    faults: tuple[Fault, ...] = ()
    more_faults: int = 0
    answer: str = ""
    cell: int = 0
    url: str = ""


def problem(status: int, headers: Mapping[str, str], body: bytes) -> errors.ClientError:
    """Return the error of an answer. Names of headers are in lower case."""
    document = _read(body)
    retry_after = _seconds(headers.get("retry-after"))
    if document is not None:
        kind = document.type.removeprefix(KIND_PREFIX)
        if document.detail == _NO_PATH:
            words = f"{status}: Dispatcher has no such path there; is the address right?"
            return errors.Unexpected(words, status=status, kind=kind, request_id=document.request_id)
        facts = structs.asdict(document)
        del facts["type"]
        error = _error_type(status, kind)
        if error is not errors.OtherCell:
            del facts["cell"], facts["url"]
        return error(**facts, status=status, kind=kind, retry_after=retry_after)
    request_id = headers.get("x-request-id", "")[:_REQUEST_ID_CHARACTERS_MAX] or None
    if status in _OF_PROXIES:
        words = f"{status} ({HTTPStatus(status).phrase}), by a proxy before Dispatcher"
        return _error_type(status, None)(words, status=status, request_id=request_id, retry_after=retry_after)
    if status in range(300, 400):
        words = f"{status}: a redirect, which is not followed with the key; is the address right?"
    else:
        words = f"{status}, and not by Dispatcher; is the address right?"
    return errors.Unexpected(words, status=status, request_id=request_id)


def _read(body: bytes) -> _Document | None:
    try:
        document = msgspec.json.decode(body, type=_Document)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return document if document.type.startswith(KIND_PREFIX) else None


def _error_type(status: int, kind: str | None) -> type[errors.ClientError]:
    if kind == _OVERLOADED:
        return errors.Overloaded
    return _BY_STATUS.get(status, errors.Refused if status in range(400, 500) else errors.Unexpected)


def _seconds(text: str | None) -> float | None:
    """Return a Retry-After in seconds, from a number or a date."""
    if text is None:
        return None
    if text.isascii() and text.isdecimal():
        return float(text[:9])
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - datetime.now(UTC).timestamp(), 0.0)
