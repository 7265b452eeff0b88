"""Refusals: errors of the schema's functions, and of JSON that Postgres cannot store, as TriggerRefused."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import asyncpg
import msgspec
from msgspec import Struct

from dispatcher.base.errors import Fault, Missing, TriggerRefused, Why

_REFUSALS = (
    asyncpg.DataError,
    asyncpg.NoDataFoundError,
    asyncpg.ObjectNotInPrerequisiteStateError,
    asyncpg.ProgramLimitExceededError,
)
_WHY: Mapping[str, Why] = {
    asyncpg.NoDataFoundError.sqlstate: "unknown",
    asyncpg.ObjectNotInPrerequisiteStateError.sqlstate: "not now",
    # A key that was used for something else.
    asyncpg.UniqueViolationError.sqlstate: "not now",
}


class _Detail(Struct, frozen=True):
    """A fault in the DETAIL of an error of the schema's functions."""

    path: str
    words: str
    # The kind and name of a missing field or variable.
    kind: str = ""
    name: str = ""


_details = msgspec.json.Decoder(list[_Detail]).decode


@contextmanager
def refusals(*more: type[asyncpg.PostgresError]) -> Iterator[None]:
    """Raise TriggerRefused if a call is refused, also by `more` errors.

    A lock time-out has a class of refusals, and is not a refusal.
    """
    caught: tuple[type[asyncpg.PostgresError], ...] = (*_REFUSALS, *more)
    try:
        yield
    except asyncpg.LockNotAvailableError:
        raise
    except caught as error:
        # asyncpg sets the detail without declaring it.
        detail: str | None = getattr(error, "detail", None)
        raise refusal(error.sqlstate or "", str(error.args[0]) if error.args else str(error), detail) from error


def refusal(code: str, message: str, detail: str | None) -> TriggerRefused:
    """Return the error of a refusal with this SQLSTATE, message and DETAIL."""
    try:
        details = _details(detail or "")
    except msgspec.MsgspecError:
        details = []
    faults = [Fault(one.path, one.words) for one in details] or [Fault("$", message)]
    missing = Missing(_names(details, "field"), _names(details, "variable"))
    return TriggerRefused(faults, message, _WHY.get(code, "faulty"), missing)


def faults(listed: str) -> list[Fault]:
    """Return the faults that a function of the schema answers as JSON."""
    return [Fault(one.path, one.words) for one in _details(listed)]


def _names(details: Sequence[_Detail], kind: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.name for one in details if one.kind == kind))
