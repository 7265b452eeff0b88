"""Problems: everything that an answer can be besides what was asked for, as RFC 9457 writes it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from dispatcher.base.errors import Fault

# Beyond these nobody reads on; how many more there are is said.
FAULTS_SHOWN_MAX = 100
MEDIA_TYPE = "application/problem+json"
KIND_PREFIX = "urn:dispatcher:problem:"


class Kind(Struct, frozen=True):
    """One kind of problem: its name, its status, and what it is in a few words."""

    name: str
    status: int
    title: str

    @property
    def type(self) -> str:
        """The identifier of it, which leads nowhere."""
        return KIND_PREFIX + self.name


FAULTY = Kind("faulty-request", 400, "The request has faults")
UNAUTHENTICATED = Kind("unauthenticated", 401, "No key that is good")
FORBIDDEN = Kind("forbidden", 403, "The key is not good for this")
NOT_FOUND = Kind("not-found", 404, "There is nothing there")
METHOD_NOT_ALLOWED = Kind("method-not-allowed", 405, "Not in this way")
TIMED_OUT = Kind("timed-out", 408, "The request took too long to arrive")
CONFLICT = Kind("conflict", 409, "It is not in a state for this")
CHANGED = Kind("changed", 412, "It is another one by now")
TOO_LARGE = Kind("too-large", 413, "The request is too large")
UNSUPPORTED = Kind("unsupported-media-type", 415, "Not in this form")
KEY_REUSED = Kind("idempotency-key-reused", 422, "This Idempotency-Key was used for another request")
ERASED = Kind("answer-erased", 422, "What was answered under this Idempotency-Key has been erased")
TOO_MANY = Kind("too-many-requests", 429, "Too many requests with this key")
HEAD_TOO_LARGE = Kind("head-too-large", 431, "The head of the request is too large")
BROKEN = Kind("internal-error", 500, "It did not work, by no fault of the request's")
CROWDED = Kind("crowded", 503, "Too many are being served")
OVERLOADED = Kind("overloaded", 503, "Too much is waiting to be sent")
UNAVAILABLE = Kind("unavailable", 503, "The database does not answer")
SLOW = Kind("slow", 504, "The answer took too long")


class Document(Struct, frozen=True, omit_defaults=True):
    """A problem as it is sent."""

    type: str
    title: str
    status: int
    detail: str
    request_id: str
    faults: Sequence[Fault] = ()
    more_faults: int = 0
    # What the thing is that was to be changed, in one word, where that is why it was not.
    answer: str = ""


class Problem(Exception):  # noqa: N818 - it is the answer to a request, and mostly nobody's error
    """Ends a request with an answer other than the one that was asked for."""

    def __init__(
        self,
        kind: Kind,
        detail: str,
        faults: Iterable[Fault] = (),
        headers: Mapping[str, str] | None = None,
        answer: str = "",
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.faults = tuple(faults)
        self.headers = dict(headers or {})
        self.answer = answer

    def document(self, request_id: str) -> bytes:
        """It as it is sent, with the first of its faults."""
        return msgspec.json.encode(
            Document(
                type=self.kind.type,
                title=self.kind.title,
                status=self.kind.status,
                detail=self.detail,
                request_id=request_id,
                faults=self.faults[:FAULTS_SHOWN_MAX],
                more_faults=self._more_faults,
                answer=self.answer,
            )
        )

    def envelope(self) -> bytes:
        """It as callers of the older interface get it."""
        return msgspec.json.encode(Refused(error=self.detail))

    @property
    def _more_faults(self) -> int:
        return max(len(self.faults) - FAULTS_SHOWN_MAX, 0)


def faulty(faults: Iterable[Fault], detail: str | None = None) -> Problem:
    """A request with faults, in words that one can read without the list."""
    found = tuple(faults)
    some = "; ".join(map(str, found[:3])) + ("; …" if found[3:] else "")
    return Problem(FAULTY, detail or some, found)


def not_found(what: str) -> Problem:
    """Nothing there, or something of somebody else's: it is not said which."""
    return Problem(NOT_FOUND, f"there is no {what}")


class Refused(Struct, frozen=True, kw_only=True):
    """What callers of the older interface get."""

    success: Literal[False] = False
    error: str
