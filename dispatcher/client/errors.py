"""The client's errors: everything that it raises on purpose, as one tree.

ClientError                 has `detail`, `status`, `kind`, `faults`, `more_faults`, `request_id`, `retry_after` and
│                           `answer`
├── Refused                 also a ValueError: what was asked for has faults, each with its path
├── Unauthenticated
├── Forbidden
├── NotFound                also a LookupError
├── Conflict
│   └── Changed
├── KeyReused
├── TooMany                 passing
├── Overloaded              passing
├── Unavailable             passing; also a ConnectionError
│   └── Closed              not passing
├── TimedOut                passing; also a TimeoutError
│   └── WaitTimedOut        has `run_id` and, where it was seen, `run`
└── Unexpected

What is passing may be otherwise when it is asked for again. No error has the key in it.
"""

# ruff: noqa: N818 - a name says what is the case (`except NotFound`)

from collections.abc import Iterable
from typing import ClassVar

from dispatcher.base.errors import Fault
from dispatcher.client.answers import Run


class ClientError(Exception):
    """It was not done. `kind` names the problem, and `request_id` is what the server's log calls it.

    Where the thing that was to be changed is not in a state for that, `answer` says in one word what it is.
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
    """What was asked for has faults: asking again will not help."""


class Unauthenticated(ClientError):
    """The key is none, or not good any more."""


class Forbidden(ClientError):
    """The key, or the database's role, is not good for this."""


class NotFound(ClientError, LookupError):
    """There is nothing there."""


class Conflict(ClientError):
    """It is not in a state for this."""


class Changed(Conflict):
    """It is another one by now."""


class KeyReused(ClientError):
    """This Idempotency-Key was used for another request."""


class TooMany(ClientError):
    """The key is used too often."""

    passing = True


class Overloaded(ClientError):
    """Too much is waiting to be sent: no more is taken."""

    passing = True


class Unavailable(ClientError, ConnectionError):
    """Nobody answers, or the answer was cut off."""

    passing = True


class Closed(Unavailable):
    """This client is closed."""

    passing = False


class TimedOut(ClientError, TimeoutError):
    """There was no answer in time. It may have been done, or may be done yet."""

    passing = True


class WaitTimedOut(TimedOut):
    """The run has not ended by then. It goes on."""

    def __init__(self, detail: str | None = None, *, run_id: int = 0, run: Run | None = None) -> None:
        super().__init__(detail)
        self.run_id = run_id
        self.run = run


class Unexpected(ClientError):
    """The answer is none that Dispatcher gives, or one of a bug."""
