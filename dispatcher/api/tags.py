"""Tags: the number of a definition's newest version as its ETag, so that nobody overwrites what he has not seen."""

from dispatcher.api.endpoints import Call
from dispatcher.api.problems import CHANGED, Problem


def tag(number: int) -> str:
    """A version as an ETag."""
    return f'"{number}"'


def require(call: Call, what: str, number: int) -> None:
    """Refuse what was meant for another version than this."""
    if call.if_match not in (None, tag(number)):
        raise Problem(CHANGED, f"the {what} is at version {number}")


def require_next(what: str, before: int | None, number: int, *, created: bool) -> None:
    """Refuse where somebody was quicker, between the look at a version and the lock; this was not done."""
    if before is not None and number != before + created:
        raise Problem(CHANGED, f"the {what} has just been changed")
