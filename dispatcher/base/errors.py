"""The errors: everything that Dispatcher raises on purpose, as one tree.

DispatcherError
├── FaultyInput                     has `faults`: every one, each with its path
│   ├── AssumptionRefused
│   ├── ConfigError
│   ├── InputError
│   ├── MoveRefused
│   ├── OtherWorkspace
│   ├── RulesRefused
│   ├── ScheduleRefused
│   ├── TemplateRefused
│   ├── TriggerRefused
│   └── WorkflowRefused
├── DatabaseUnavailable             also a ConnectionError
├── UnsafeDatabase
├── SchemaError
│   ├── SchemaTooNew
│   ├── SchemaBehind
│   ├── SchemaUnreleased
│   ├── TenantRoleMissing
│   ├── WrongCell
│   └── MigrationChanged
├── OtherCell
├── NotPlaced
├── Fenced
├── NeedsWorker                     it would hold the event loop
├── CallLost                        the worker process was killed, or took too long
├── PausesChanged
├── DemonstrationRefused
├── TemplateError                   has `field` and `reason`
├── MoveInterrupted
├── ListenerError                   also an OSError
├── NoRemoteForm
└── RestartBudgetSpent

An error raised without words of its own says its docstring.
"""

# ruff: noqa: N818 - a name says what is the case (`except Fenced`); the suffix is kept for where a bare noun is no error

import difflib
import json
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

# Longer than any real key or value; the rest of a pasted file does not help in an error message.
SHOWN_CHARACTERS_MAX = 60
# Of one input: more are not read, and each takes 0.1 ms, which blocks a server.
HINTS_MAX = 100


class DispatcherError(Exception):
    """Dispatcher failed."""

    def __init__(self, message: str | None = None) -> None:
        # Under `python -OO` there are no docstrings: the class name is still better than nothing.
        super().__init__(message or self.__doc__ or type(self).__name__)


class Fault(Struct, frozen=True):
    """One fault of an input, and its path."""

    path: str
    message: str

    def __str__(self) -> str:
        return _one_line(f"{self.path}: {self.message}")


def _one_line(text: str) -> str:
    # Keys and values come from outside: a newline or an escape sequence in one must not forge a line of a log.
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def quoted(text: str) -> str:
    """Return a text in quotes, cut if it is long."""
    cut = text if len(text) <= SHOWN_CHARACTERS_MAX else text[:SHOWN_CHARACTERS_MAX] + "…"
    # Half of a surrogate pair cannot be written anywhere.
    return json.dumps(cut, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """Return the end of a fault: a hint at the known word that is similar, if there is one."""
    if not isinstance(word, str) or len(word) > SHOWN_CHARACTERS_MAX:
        return ""
    near = difflib.get_close_matches(word, known, n=1)
    return f'; did you mean "{near[0]}"?' if near else ""


class Hints:
    """Hints as of `did_you_mean`, for the first of many words that are given at once."""

    def __init__(self) -> None:
        self._left = HINTS_MAX

    def did_you_mean(self, word: object, known: Iterable[str]) -> str:
        if self._left == 0:
            return ""
        self._left -= 1
        return did_you_mean(word, known)


class FaultyInput(DispatcherError):
    """What was given has faults."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        if not self.faults:
            raise ValueError("an error about faults needs at least one")
        super().__init__("\n".join(map(str, self.faults)))

    def __reduce__(self) -> tuple[type["FaultyInput"], tuple[tuple[Fault, ...]]]:
        # Exceptions are copied by calling the class with their message, which is not what this one takes.
        return type(self), (self.faults,)


class ConfigError(FaultyInput):
    """The configuration has faults."""


class InputError(FaultyInput):
    """The input has faults."""


class MoveRefused(FaultyInput):
    """A tenant is not moved."""


class OtherWorkspace(FaultyInput):
    """The key opens another workspace than the one that is named."""


class RulesRefused(FaultyInput):
    """Rules, or an event that they are about, have faults."""


class ScheduleRefused(FaultyInput):
    """The schedule has faults."""


class TemplateRefused(FaultyInput):
    """The template has faults."""


class WorkflowRefused(FaultyInput):
    """The workflow has faults."""


# It does not exist, is not in a state for it, or the call has faults.
Why = Literal["unknown", "not now", "faulty"]


class Missing(Struct, frozen=True):
    """The names that an input lacks: those that its workflow requires, and those that its texts read, in order."""

    fields: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()


NOTHING_MISSING = Missing()


class TriggerRefused(FaultyInput):
    """The database refuses a call, with a message of its own."""

    def __init__(
        self, faults: Iterable[Fault], message: str, why: Why = "faulty", missing: Missing = NOTHING_MISSING
    ) -> None:
        super().__init__(faults)
        self.message = message
        self.why = why
        self.missing = missing

    def __reduce__(self) -> tuple[type["TriggerRefused"], tuple[tuple[Fault, ...], str, Why, Missing]]:  # type: ignore[override]  # it takes its message, too
        return type(self), (self.faults, self.message, self.why, self.missing)


class AssumptionRefused(FaultyInput):
    """An assumption of a dry run names nodes that its workflow does not have."""


class DatabaseUnavailable(DispatcherError, ConnectionError):
    """Postgres cannot be reached."""


class UnsafeDatabase(DispatcherError):
    """This Postgres can lose what it has committed (fsync is off), or it is a standby."""


class SchemaError(DispatcherError):
    """The schema in the database is not the one that this program needs."""


class SchemaTooNew(SchemaError):
    """The schema was migrated by a newer Dispatcher: run that version, or a newer one."""


class SchemaBehind(SchemaError):
    """The schema lacks migrations: run `dispatcher migrate`."""


class SchemaUnreleased(SchemaError):
    """The schema was made by a version that was never released: recreate the database."""


class TenantRoleMissing(SchemaError):
    """The role that sees one workspace alone is missing, or not ours to take: an administrator has to help."""


class WrongCell(SchemaError):
    """The database is another cell than the configuration says."""


class MigrationChanged(SchemaError):
    """A migration was changed after it had been applied: restore its text and put the change into a new one."""


class OtherCell(DispatcherError):
    """The tenant is in another cell."""


class NotPlaced(DispatcherError):
    """The tenant cannot be placed."""


class Fenced(DispatcherError):
    """Our instance row is gone: others have taken over what we had claimed."""


class PausesChanged(DispatcherError):
    """A pause was set or ended while a mark waited for a connection; nothing was marked."""


class TemplateError(DispatcherError):
    """A template cannot be rendered."""

    def __init__(self, field: str, reason: str) -> None:
        self.field = field
        self.reason = reason
        super().__init__(f"{field}: {reason}")

    def __reduce__(self) -> tuple[type["TemplateError"], tuple[str, str]]:
        return type(self), (self.field, self.reason)


class NeedsWorker(DispatcherError):
    """This would hold the event loop for too long: it is for the worker process."""

    def __init__(self, message: str | None = None, *, template: str = "") -> None:
        self.template = template
        super().__init__(message)


class CallLost(DispatcherError):
    """A call to the worker process was lost."""


class ListenerError(DispatcherError, OSError):
    """The HTTP listener cannot bind its address."""


class MoveInterrupted(DispatcherError):
    """The move of a tenant was interrupted: the same command goes on with it."""


class DemonstrationRefused(DispatcherError):
    """The demonstration starts only on a database that it made itself."""


class NoRemoteForm(DispatcherError):
    """This works on a database, and was to be done through a server."""


class RestartBudgetSpent(DispatcherError):
    """It crashed more often than its restart budget allows."""
