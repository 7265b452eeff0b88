"""The client's errors: everything that it raises on purpose, as a tree.

ClientError                 has `detail`, `status`, `kind`, `faults`, `more_faults`, `request_id`, `retry_after` and
│                           `answer`
├── Refused                 also a ValueError: what was asked for has faults, each with its path
├── Unauthenticated
├── Forbidden
├── NotFound                also a LookupError
├── Conflict
│   └── Changed
├── KeyReused
├── OtherCell               has `cell` and `url`: the tenant is there
├── TooMany                 passing
├── Overloaded              passing
├── Unavailable             passing; also a ConnectionError
│   └── Closed              not passing
├── TimedOut                passing; also a TimeoutError
│   └── WaitTimedOut        has `run_id` and, where it was seen, `run`
└── Unexpected

A passing error may not come again when the call is repeated. No error shows the key.
"""

# ruff: noqa: N818 - a name says what is the case (`except NotFound`)

from collections.abc import Iterable
from typing import Any, ClassVar

from dispatcher.base.errors import Fault
from dispatcher.client.answers import Run


class ClientError(Exception):
    """The call failed. `kind` names the problem, and `request_id` the request in the server's log.

    Where a thing is not in a state to be changed, `answer` is its state in a word.
    """

    passing: ClassVar[bool] = False

    def __init__(
        self,
        detail: str | None = None,
        *,
        status: int | None = None,
        kind: str | None = None,
        faults: Iterable[Fault] = (),
        more_faults: int = 0,
        request_id: str | None = None,
        retry_after: float | None = None,
        answer: str = "",
    ) -> None:
        self.detail = detail or self.__doc__ or type(self).__name__
        super().__init__(self.detail)
        self.status = status
        self.kind = kind
        self.faults = tuple(faults)
        self.more_faults = more_faults
        self.request_id = request_id
        self.retry_after = retry_after
        self.answer = answer


class Refused(ClientError, ValueError):
    """The call has faults: repeating it will not help."""


class Unauthenticated(ClientError):
    """The key is not valid, or not valid any more."""


class Forbidden(ClientError):
    """The key, or the database's role, lacks the right for this."""


class NotFound(ClientError, LookupError):
    """The thing does not exist."""


class Conflict(ClientError):
    """The thing is not in a state for this."""


class Changed(Conflict):
    """The thing has changed meanwhile."""


class KeyReused(ClientError):
    """This Idempotency-Key was used for another request."""


class OtherCell(ClientError):
    """The tenant is in another cell: `cell` is its number, 0 where that is not known, and `url` its address."""

    def __init__(self, detail: str | None = None, *, cell: int = 0, url: str = "", **facts: Any) -> None:  # noqa: ANN401 - as there
        super().__init__(detail, **facts)
        self.cell = cell
        self.url = url


class TooMany(ClientError):
    """The key is used too often."""

    passing = True


class Overloaded(ClientError):
    """Too much is waiting to be sent: the server takes no more for now."""

    passing = True


class Unavailable(ClientError, ConnectionError):
    """The server does not answer, or its answer was cut off."""

    passing = True


class Closed(Unavailable):
    """This client is closed."""

    passing = False


class TimedOut(ClientError, TimeoutError):
    """There was no answer in time. The call may have been done, or be done later."""

    passing = True


class WaitTimedOut(TimedOut):
    """The run has not ended in time. It goes on."""

    def __init__(self, detail: str | None = None, *, run_id: int = 0, run: Run | None = None) -> None:
        super().__init__(detail)
        self.run_id = run_id
        self.run = run


class Unexpected(ClientError):
    """The answer is not from Dispatcher, or comes from a bug."""
