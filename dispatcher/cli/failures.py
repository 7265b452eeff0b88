"""Failures: errors that are not bugs, each as a sentence with an exit code."""

import subprocess
import traceback
from collections.abc import Iterator

import asyncpg
from msgspec import Struct

from dispatcher.base.errors import (
    ConfigError,
    DispatcherError,
    Fault,
    InputError,
    NoRemoteForm,
    OtherWorkspace,
    RestartBudgetSpent,
    RulesRefused,
    SchemaBehind,
    TemplateRefused,
    TriggerRefused,
    WorkflowRefused,
)
from dispatcher.cli.terminal.launcher import launcher
from dispatcher.db.database import PASSING
from dispatcher.http.problems import FAULTY, Problem

FAILED = 1
UNUSABLE = 2  # the command line or the configuration; the command line's own code for wrong usage is the same
REFUSED = 3  # some of what was to be sent, or what was to be saved
INTERRUPTED = 130
_CLIENT = "dispatcher.client.errors"
# The path of a fault in a parameter of a URL begins with it.
_QUERY = "query."

# The server refuses the connection: waiting does not help.
FORBIDDEN = (
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InsufficientPrivilegeError,
)


class Failure(Struct, frozen=True):
    """An error as a command shows it."""

    kind: str
    message: str
    exit_code: int = FAILED
    faults: tuple[Fault, ...] = ()


def explain(error: BaseException) -> list[Failure] | None:
    """Return the failures in an error or its groups; None where any leaf is a bug, which shows its traceback."""
    found = [_failure(leaf) for leaf in _leaves(error)]
    known = [failure for failure in found if failure is not None]
    return list(dict.fromkeys(known)) if len(known) == len(found) else None


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _failure(error: BaseException) -> Failure | None:
    if isinstance(error, Problem):
        return _problem(error)
    if isinstance(error, (OtherWorkspace, NoRemoteForm)) or type(error).__module__ == _CLIENT:
        # A command that calls a server has imported the client, which takes as long as all the rest of it.
        from dispatcher.cli.calls.failures import explain_remote  # noqa: PLC0415 - as above

        return explain_remote(error)
    message, code, faults = _message(error), FAILED, tuple[Fault, ...]()
    match error:
        case ConfigError():
            message, code, faults = "the configuration has faults", UNUSABLE, error.faults
        case InputError():
            message, code, faults = "what was to be sent is refused", REFUSED, error.faults
        case RulesRefused() | TemplateRefused() | WorkflowRefused():
            message, code, faults = "nothing was saved: there are faults", REFUSED, error.faults
        case TriggerRefused():
            message, code, faults = error.message, REFUSED, error.faults
        case ValueError() if _is_about_the_url(error):
            # The error's own message may quote the password.
            words = "its host or port cannot be read; characters such as : / @ # in a password are percent-encoded"
            message, code = "the configuration has faults", UNUSABLE
            faults = (Fault("database.url", words),)
        case _:
            pass
    return None if message is None else Failure(type(error).__name__, message, code, faults)


def _message(error: BaseException) -> str | None:
    match error:
        case SchemaBehind():
            return f"the database lacks migrations ({error}): run `{launcher()} migrate`"
        case RestartBudgetSpent():
            return f"{error}: {_cause(error)}"
        case subprocess.SubprocessError():
            return f"the embedded Postgres does not start: {error}"
        case _ if isinstance(error, FORBIDDEN):
            return f"the database refuses us: {error}"
        case _:
            return (str(error) or type(error).__name__) if isinstance(error, (DispatcherError, *PASSING)) else None


def _problem(problem: Problem) -> Failure:
    """Return the failure for a Problem of an endpoint, in this process or on a server."""
    if problem.kind is not FAULTY:
        return Failure("".join(word.title() for word in problem.kind.name.split("-")), problem.detail)
    about_options = all(fault.path.startswith(_QUERY) for fault in problem.faults)
    faults = tuple(Fault(_option(fault.path), fault.message) for fault in problem.faults)
    words = "nothing was done: there are faults" if faults else problem.detail
    return Failure("Refused", words, UNUSABLE if faults and about_options else REFUSED, faults)


def _option(path: str) -> str:
    return f"--{path.removeprefix(_QUERY).replace('_', '-')}" if path.startswith(_QUERY) else path


def _is_about_the_url(error: ValueError) -> bool:
    """Whether the driver could not parse the URL, for which it has no exception of its own."""
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_globals.get("__name__") == "asyncpg.connect_utils" for frame, _ in frames)


def _cause(error: RestartBudgetSpent) -> str:
    if error.__cause__ is None:
        return "see the log"
    return "; ".join(dict.fromkeys(f"{type(leaf).__name__}: {leaf}" for leaf in _leaves(error.__cause__)))


def unreadable(fault: OSError) -> str:
    """Return why a file cannot be read."""
    return f"cannot be read: {fault.strerror or type(fault).__name__}"
