"""Failures: what can go wrong by no fault of the program's, in one sentence and with an exit code."""

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
# Where a fault in a parameter of a URL is.
_QUERY = "query."

# The server knows us and says no: that is for whoever set it up, and waiting changes nothing.
FORBIDDEN = (
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InsufficientPrivilegeError,
)


class Failure(Struct, frozen=True):
    """What is said about it."""

    kind: str
    message: str
    exit_code: int = FAILED
    faults: tuple[Fault, ...] = ()


def explain(error: BaseException) -> list[Failure] | None:
    """What to say about an error, also one inside groups; None where any of it is a bug, which shows its traceback."""
    found = [_problem(leaf) if isinstance(leaf, Problem) else _failure(leaf) for leaf in _leaves(error)]
    known = [failure for failure in found if failure is not None]
    return list(dict.fromkeys(known)) if len(known) == len(found) else None


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _failure(error: BaseException) -> Failure | None:
    kind = type(error).__name__
    match error:
        case ConfigError(faults=faults):
            return Failure(kind, "the configuration has faults", UNUSABLE, faults)
        case InputError() | TemplateRefused() | WorkflowRefused():
            is_input = isinstance(error, InputError)
            words = "what was to be sent is refused" if is_input else "nothing was saved: there are faults"
            return Failure(kind, words, REFUSED, error.faults)
        case TriggerRefused(faults=faults, message=words):
            return Failure(kind, words, REFUSED, faults)
        case _ if isinstance(error, (OtherWorkspace, NoRemoteForm)) or type(error).__module__ == _CLIENT:
            # A command that asks a server has imported the client, which takes as long as all the rest of it.
            from dispatcher.cli.calls.failures import explain_remote  # noqa: PLC0415 - as above

            return explain_remote(error)
        case ValueError() if _is_about_the_url(error):
            # Its own words may quote what stands beside an unescaped character: the password.
            words = "its host or port cannot be read; characters such as : / @ # in a password are percent-encoded"
            return Failure(kind, "the configuration has faults", UNUSABLE, (Fault("database.url", words),))
        case _:
            message = _message(error)
            return None if message is None else Failure(kind, message)


def _problem(problem: Problem) -> Failure:
    """What an endpoint answers besides what was asked for, in this process or on a server."""
    if problem.kind is not FAULTY:
        kind = "".join(word.title() for word in problem.kind.name.split("-"))
        return Failure(kind, problem.detail)
    about_options = all(fault.path.startswith(_QUERY) for fault in problem.faults)
    faults = tuple(Fault(_option(fault.path), fault.message) for fault in problem.faults)
    words = "nothing was done: there are faults" if faults else problem.detail
    return Failure("Refused", words, UNUSABLE if faults and about_options else REFUSED, faults)


def _option(path: str) -> str:
    return f"--{path.removeprefix(_QUERY).replace('_', '-')}" if path.startswith(_QUERY) else path


def _is_about_the_url(error: ValueError) -> bool:
    """Whether the driver gave up on taking the URL apart, for which it has no exception of its own."""
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_globals.get("__name__") == "asyncpg.connect_utils" for frame, _ in frames)


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
        case _ if isinstance(error, (DispatcherError, *PASSING)):
            return str(error) or type(error).__name__
        case _:
            return None


def _cause(error: RestartBudgetSpent) -> str:
    if error.__cause__ is None:
        return "the log says why"
    return "; ".join(dict.fromkeys(f"{type(leaf).__name__}: {leaf}" for leaf in _leaves(error.__cause__)))


def unreadable(fault: OSError) -> str:
    """Why a file cannot be read."""
    return f"cannot be read: {fault.strerror or type(fault).__name__}"
