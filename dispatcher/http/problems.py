"""Problems: every answer other than the one that was asked for, as RFC 9457 problem documents."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from dispatcher.base.errors import Fault, TriggerRefused

# More do not help; their number is given.
FAULTS_SHOWN_MAX = 100
MEDIA_TYPE = "application/problem+json"
KIND_PREFIX = "urn:dispatcher:problem:"


class Kind(Struct, frozen=True):
    """One kind of problem: its name, its HTTP status, and its title."""

    name: str
    status: int
    title: str

    @property
    def type(self) -> str:
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
MISDIRECTED = Kind("other-cell", 421, "The tenant is in another cell")
UNSUPPORTED = Kind("unsupported-media-type", 415, "Not in this form")
KEY_REUSED = Kind("idempotency-key-reused", 422, "This Idempotency-Key was used for another request")
ERASED = Kind("answer-erased", 422, "What was answered under this Idempotency-Key has been erased")
TOO_MANY = Kind("too-many-requests", 429, "Too many requests with this key")
HEAD_TOO_LARGE = Kind("head-too-large", 431, "The head of the request is too large")
BROKEN = Kind("internal-error", 500, "It did not work, by no fault of the request's")
CROWDED = Kind("crowded", 503, "Too many are being served")
OVERLOADED = Kind("overloaded", 503, "Too much is waiting to be sent")
MOVING = Kind("tenant-moving", 503, "The tenant is being moved to another cell")
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
    # The state that kept the thing from being changed, in one word.
    answer: str = ""
    # Where the tenant of the key is, if it is in another cell.
    cell: int = 0
    url: str = ""


class Problem(Exception):  # noqa: N818 - an answer to a request, seldom an error of ours
    """Ends a request with an answer other than the one that was asked for."""

    def __init__(
        self,
        kind: Kind,
        detail: str,
        faults: Iterable[Fault] = (),
        headers: Mapping[str, str] | None = None,
        answer: str = "",
        cell: int = 0,
        url: str = "",
    ) -> None:
        super().__init__(detail)
        self.cell = cell
        self.url = url
        self.kind = kind
        self.detail = detail
        self.faults = tuple(faults)
        self.headers = dict(headers or {})
        self.answer = answer

    def document(self, request_id: str) -> bytes:
        """Return the problem document, with the first faults."""
        return msgspec.json.encode(
            Document(
                type=self.kind.type,
                title=self.kind.title,
                status=self.kind.status,
                detail=self.detail,
                request_id=request_id,
                faults=self.faults[:FAULTS_SHOWN_MAX],
                more_faults=max(len(self.faults) - FAULTS_SHOWN_MAX, 0),
                answer=self.answer,
                cell=self.cell,
                url=self.url,
            )
        )

    def envelope(self) -> bytes:
        """Return the problem in the older interface's envelope."""
        return msgspec.json.encode(Refused(error=self.detail))


def faulty(faults: Iterable[Fault], detail: str | None = None) -> Problem:
    """Return the problem of a request with faults; its detail has the first of them."""
    found = tuple(faults)
    some = "; ".join(map(str, found[:3])) + ("; …" if found[3:] else "")
    return Problem(FAULTY, detail or some, found)


def not_found(what: str) -> Problem:
    """Return the problem of what does not exist, or belongs to another workspace: the answer does not tell which."""
    return Problem(NOT_FOUND, f"there is no {what}")


def refusal(refused: TriggerRefused) -> Problem:
    """Return the problem of a call that the database refuses."""
    match refused.why:
        case "unknown":
            return Problem(NOT_FOUND, refused.message, refused.faults)
        case "not now":
            return Problem(CONFLICT, refused.message, refused.faults)
        case "faulty":
            return faulty(refused.faults, refused.message)


class Refused(Struct, frozen=True, kw_only=True):
    """The problem in the envelope of the older interface."""

    success: Annotated[bool, Meta(extra_json_schema={"const": False})] = False
    error: str
