"""Tags: the number of a definition's newest version as its ETag, so that nobody overwrites what he has not seen."""

from dispatcher.http.endpoints import Call
from dispatcher.http.problems import CHANGED, Problem


def tag(number: int) -> str:
    """A version as an ETag."""
    return f'"{number}"'


def fits(field: str, number: int) -> bool:
    """Whether an If-Match means this version: any that there is, or one of several.

    A proxy that compresses makes a tag weak on its way out, and its holder would never be let in again: the version is
    the same.
    """
    named = [one.strip().removeprefix("W/") for one in field.split(",")]
    return named == ["*"] or tag(number) in named


def require(call: Call, what: str, number: int) -> None:
    """Refuse what was meant for another version than this."""
    if call.if_match is not None and not fits(call.if_match, number):
        raise Problem(CHANGED, f"the {what} is at version {number}")


def require_next(what: str, before: int | None, number: int, *, created: bool) -> None:
    """Refuse where somebody was quicker, between the look at a version and the lock; this was not done."""
    if before is not None and number != before + created:
        raise Problem(CHANGED, f"the {what} has just been changed")
