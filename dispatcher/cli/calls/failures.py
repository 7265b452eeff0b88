"""Remote failures: an error of a server, or its silence, as a sentence with an exit code."""

from dispatcher.base.errors import NoRemoteForm, OtherWorkspace
from dispatcher.cli.failures import UNUSABLE, Failure
from dispatcher.client import errors

_WORDS: tuple[tuple[type[errors.ClientError], str], ...] = (
    (errors.Refused, "the server refuses what it was asked for: "),
    (errors.Unauthenticated, "the server does not take our key: "),
    (errors.Forbidden, "the key may not do this: "),
    (errors.TooMany, "the server takes no more for now: "),
    (errors.Overloaded, "the server takes no more for now: "),
    (errors.Unavailable, "the server cannot be reached: "),
    (errors.TimedOut, "the server has not answered in time, and may have done it or do it yet: "),
    (errors.Unexpected, "the server does not answer as it should: "),
)


def explain_remote(error: BaseException) -> Failure | None:
    """Return the failure for an error about a server; None for any other."""
    kind = type(error).__name__
    match error:
        case OtherWorkspace(faults=faults):
            return Failure(kind, "nothing was done: the key opens another workspace", UNUSABLE, faults)
        case NoRemoteForm():
            return Failure(kind, str(error), UNUSABLE)
        case errors.Refused(faults=faults) if faults:
            more = f", and {error.more_faults:,} more" if error.more_faults else ""
            return Failure(kind, f"the server refuses what it was asked for{more}", UNUSABLE, faults)
        case errors.ClientError():
            return Failure(kind, _words(error))
        case _:
            return None


def _words(error: errors.ClientError) -> str:
    words = next((words for kind, words in _WORDS if isinstance(error, kind)), "")
    if isinstance(error, errors.Unavailable) and error.status is not None:
        words = "the server cannot do it now: "
    wait = "" if error.retry_after is None else f"; it may be asked again in {error.retry_after:.0f} s"
    is_logged = isinstance(error, errors.Unexpected) and error.request_id
    called = f" (its log calls it {error.request_id})" if is_logged else ""
    return f"{words}{error.detail}{wait}{called}"
