"""The log handler: it collects what is logged as an error.

Of a line it takes the event's name, the part that it names, and the exception's class and place. The rest stays in the
log: an exception's message may quote anything, a delivery or a password for example.
"""

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from traceback import walk_tb

from dispatcher.alerts.collected import Kind

# Events about what a user has saved.
IGNORED_EVENTS = frozenset({"schedule.refused", "schedule.unreadable"})
# Fields that name the part, and never a recipient.
PARTS = ("part", "operation", "channel")
ROOT = Path(__file__).parents[2]
OURS = ("dispatcher", "channels")
# The event of what libraries log: their own names say enough.
LIBRARY_EVENT = "library.failed"


class ErrorHandler(logging.Handler):
    """Gives each error to `add`."""

    def __init__(self, add: Callable[[Kind], None]) -> None:
        super().__init__(logging.ERROR)
        self._add = add

    def emit(self, record: logging.LogRecord) -> None:
        """Add a line that is an error."""
        kind = _kind(record)
        if kind.event not in IGNORED_EVENTS:
            self._add(kind)


def _kind(record: logging.LogRecord) -> Kind:
    fields = record.msg
    if not isinstance(fields, dict):
        return Kind(LIBRARY_EVENT, record.name, *_error(record.exc_info))
    part = next((str(fields[field]) for field in PARTS if field in fields), "")
    return Kind(str(fields.get("event", "")), part, *_error(fields.get("exc_info")))


def _error(exc_info: object) -> tuple[str, str]:
    """Return the class and the place in our code of a line's exception, or of the exception that is being handled."""
    error = _exception(exc_info)
    if error is None:
        return "", ""
    error = innermost(error)
    return type(error).__name__, _place(error)


def innermost(error: BaseException) -> BaseException:
    """Return the error that a task group has wrapped, the first of several."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _exception(exc_info: object) -> BaseException | None:
    match exc_info:
        case BaseException() as error:
            return error
        case (_, BaseException() as error, _):
            return error
        case _:
            return sys.exception()


def _place(error: BaseException) -> str:
    """Return the innermost line of ours, else of a library."""
    found = ""
    for frame, line in walk_tb(error.__traceback__):
        path = Path(frame.f_code.co_filename)
        if any(path.is_relative_to(ROOT / package) for package in OURS):
            found = f"{path.relative_to(ROOT)}:{line}"
        elif not found:
            found = f"{path.name}:{line}"
    return found
