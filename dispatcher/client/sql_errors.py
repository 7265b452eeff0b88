"""Refusals: errors of the schema's functions, as the errors that they are over HTTP."""

from collections.abc import Mapping

import asyncpg
import msgspec

from dispatcher.base.errors import Fault
from dispatcher.client.encoding import FAULTY
from dispatcher.client.errors import (
    ClientError,
    Conflict,
    Forbidden,
    NotFound,
    OtherCell,
    Refused,
    Unavailable,
    Unexpected,
)

_details = msgspec.json.Decoder(list[dict[str, str]]).decode
_KINDS: Mapping[type[asyncpg.PostgresError], tuple[type[ClientError], str]] = {
    asyncpg.NoDataFoundError: (NotFound, "not-found"),
    asyncpg.ObjectNotInPrerequisiteStateError: (Conflict, "conflict"),
    # A key that was used for something else; those of rows are taken care of by the functions.
    asyncpg.UniqueViolationError: (Conflict, "conflict"),
    asyncpg.DataError: (Refused, FAULTY),
    asyncpg.ProgramLimitExceededError: (Refused, FAULTY),
    asyncpg.InsufficientPrivilegeError: (Forbidden, "forbidden"),
    asyncpg.UndefinedFunctionError: (Unexpected, "schema-behind"),
    asyncpg.InvalidSchemaNameError: (Unexpected, "schema-behind"),
}
# A tenant that is being moved to another cell, or is there.
_OF_CELLS: Mapping[str, tuple[type[ClientError], str]] = {
    "57T01": (Unavailable, "tenant-moving"),
    "57T02": (OtherCell, "other-cell"),
}


def error_of(fault: asyncpg.PostgresError) -> ClientError | None:
    """Return the error for a refusal; None for what is about the transaction and not about the call."""
    if isinstance(fault, asyncpg.LockNotAvailableError):
        # By its class it would be a conflict.
        return None
    if fault.sqlstate in _OF_CELLS:
        error, kind = _OF_CELLS[fault.sqlstate]
        return error(str(fault.args[0]), kind=kind)
    for raised, (error, kind) in _KINDS.items():
        if isinstance(fault, raised):
            message = str(fault.args[0]) if fault.args else str(fault)
            if _is_of_nul(fault):
                message = "has a NUL character, which Postgres cannot keep"
            return error(message, kind=kind, faults=_faults(error, fault, message))
    return None


def _is_of_nul(fault: asyncpg.PostgresError) -> bool:
    """Whether it is about a NUL, in JSON or elsewhere: nothing else that is not UTF-8 reaches Postgres."""
    if isinstance(fault, asyncpg.UntranslatableCharacterError):
        return "\\u0000" in (getattr(fault, "detail", None) or "")
    return isinstance(fault, asyncpg.CharacterNotInRepertoireError)


def _faults(error: type[ClientError], fault: asyncpg.PostgresError, message: str) -> list[Fault]:
    """Return the faults that the schema lists, else its message where a refusal over HTTP has a fault."""
    if error not in (Refused, Conflict, NotFound):
        return []
    # Its own fields are typed as absent.
    detail: str | None = getattr(fault, "detail", None)
    try:
        found = [Fault(one["path"], one["words"]) for one in _details(detail or "")]
    except (msgspec.MsgspecError, KeyError):
        found = []
    return found or ([] if error is NotFound else [Fault("$", message)])
