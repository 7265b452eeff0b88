"""Remote failures: an error of a server, or its silence, as a sentence with an exit code."""

from dispatcher.base.errors import NoRemoteForm, OtherWorkspace
from dispatcher.cli.failures import UNUSABLE, Failure
from dispatcher.client.errors import (
    ClientError,
    Forbidden,
    Overloaded,
    Refused,
    TimedOut,
    TooMany,
    Unauthenticated,
    Unavailable,
    Unexpected,
)

_WORDS: tuple[tuple[type[ClientError], str], ...] = (
    (Refused, "the server refuses what it was asked for: "),
    (Unauthenticated, "the server does not take our key: "),
    (Forbidden, "the key may not do this: "),
    (TooMany, "the server takes no more for now: "),
    (Overloaded, "the server takes no more for now: "),
    (Unavailable, "the server cannot be reached: "),
    (TimedOut, "the server has not answered in time, and may have done it or do it yet: "),
    (Unexpected, "the server does not answer as it should: "),
)


def explain_remote(error: BaseException) -> Failure | None:
    """Return the failure for an error about a server; None for any other."""
    kind = type(error).__name__
    match error:
        case OtherWorkspace(faults=faults):
            return Failure(kind, "nothing was done: the key opens another workspace", UNUSABLE, faults)
        case NoRemoteForm():
            return Failure(kind, str(error), UNUSABLE)
        case Refused(faults=faults) if faults:
            more = f", and {error.more_faults:,} more" if error.more_faults else ""
            return Failure(kind, f"the server refuses what it was asked for{more}", UNUSABLE, faults)
        case ClientError():
            return Failure(kind, _words(error))
        case _:
            return None


def _words(error: ClientError) -> str:
    words = next((words for kind, words in _WORDS if isinstance(error, kind)), "")
    if isinstance(error, Unavailable) and error.status is not None:
        words = "the server cannot do it now: "
    wait = "" if error.retry_after is None else f"; it may be asked again in {error.retry_after:.0f} s"
    called = f" (its log calls it {error.request_id})" if isinstance(error, Unexpected) and error.request_id else ""
    return f"{words}{error.detail}{wait}{called}"
