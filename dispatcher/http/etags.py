"""ETags: the number of a definition's newest version, so that a client overwrites only the version that it has read."""

from dispatcher.http.endpoints import Call
from dispatcher.http.problems import CHANGED, Problem


def tag(number: int) -> str:
    """Return a version as an ETag."""
    return f'"{number}"'


def matches(field: str, number: int) -> bool:
    """Whether an If-Match (`*` or a list of tags) means this version.

    Weak tags count: a proxy that compresses makes tags weak, and its callers could never change anything.
    """
    named = [one.strip().removeprefix("W/") for one in field.split(",")]
    return named == ["*"] or tag(number) in named


def require(call: Call, what: str, number: int) -> None:
    """Raise Problem if the request was meant for another version than this."""
    if call.if_match is not None and not matches(call.if_match, number):
        raise Problem(CHANGED, f"the {what} is at version {number}")


def require_next(what: str, before: int | None, number: int, *, created: bool) -> None:
    """Raise Problem if another request changed it between the look at its version and the lock."""
    if before is not None and number != before + created:
        raise Problem(CHANGED, f"the {what} has just been changed")
