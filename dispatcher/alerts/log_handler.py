"""The ear: hears what is logged as an error, which is where everything that fails speaks already.

Of a line it takes the event's name, the part that it names, and the exception's class and place. The rest stays in the
log: an exception's own words may quote anything, a delivery or a password among it.
"""

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from traceback import walk_tb

from dispatcher.alerts.collected import Kind

# Lines of these come from what a user has saved, and not from the dispatcher.
UNTOLD = frozenset({"schedule.refused", "schedule.unreadable"})
# Fields of a line that say which part it is about, and never whom.
PARTS = ("part", "operation", "channel")
ROOT = Path(__file__).parents[2]
OURS = ("dispatcher", "channels")
# What others log has no event: their own names say enough.
FOREIGN = "library.failed"


class ErrorHandler(logging.Handler):
    """Hands each error to `heard`."""

    def __init__(self, heard: Callable[[Kind], None]) -> None:
        super().__init__(logging.ERROR)
        self._heard = heard

    def emit(self, record: logging.LogRecord) -> None:
        """Called for every line of the log that is an error."""
        kind = _kind(record)
        if kind.event not in UNTOLD:
            self._heard(kind)


def _kind(record: logging.LogRecord) -> Kind:
    said = record.msg
    if not isinstance(said, dict):
        return Kind(FOREIGN, record.name, *_error(record.exc_info))
    part = next((str(said[field]) for field in PARTS if field in said), "")
    return Kind(str(said.get("event", "")), part, *_error(said.get("exc_info")))


def _error(told: object) -> tuple[str, str]:
    """An exception's class, and where in our code it was raised: the line's own, or the one that is being handled."""
    error = _exception(told)
    if error is None:
        return "", ""
    error = innermost(error)
    return type(error).__name__, _place(error)


def innermost(error: BaseException) -> BaseException:
    """Return the error that a task group has wrapped, the first of several."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _exception(told: object) -> BaseException | None:
    match told:
        case BaseException() as error:
            return error
        case (_, BaseException() as error, _):
            return error
        case _:
            return sys.exception()


def _place(error: BaseException) -> str:
    """The innermost line of ours; of a library's only where none is."""
    found = ""
    for frame, line in walk_tb(error.__traceback__):
        path = Path(frame.f_code.co_filename)
        if any(path.is_relative_to(ROOT / package) for package in OURS):
            found = f"{path.relative_to(ROOT)}:{line}"
        elif not found:
            found = f"{path.name}:{line}"
    return found
