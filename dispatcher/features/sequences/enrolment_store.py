"""The store of enrolments: enrol contacts; pause, resume, cancel and move enrolments; what they have sent."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import asyncpg
import msgspec

from dispatcher.base.errors import Fault, TriggerRefused, Why
from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.db.statements import statements

_SQL = statements("dispatcher.features.sequences.store")
_json = msgspec.json.Encoder().encode
_faults = msgspec.json.Decoder(list[dict[str, str]]).decode
_objects = msgspec.json.Decoder(list[dict[str, Any]]).decode
_WHY: Mapping[type[asyncpg.PostgresError], Why] = {
    asyncpg.NoDataFoundError: "unknown",
    asyncpg.ObjectNotInPrerequisiteStateError: "not now",
    asyncpg.DataError: "faulty",
    asyncpg.ProgramLimitExceededError: "faulty",
}
PREVIEWED_MAX = 10_000


def _place(here: Workspace) -> tuple[str, str]:
    return here.tenant_id, here.workspace_id


def _contact(contact: int | str) -> tuple[str | None, int | None]:
    return (None, contact) if isinstance(contact, int) else (contact, None)


@contextmanager
def _refusals() -> Iterator[None]:
    """Raise TriggerRefused if a call is refused. A lock time-out has a class of refusals, and is not a refusal."""
    try:
        yield
    except asyncpg.LockNotAvailableError:
        raise
    except tuple(_WHY) as error:
        # asyncpg sets the detail without declaring it.
        detail: str | None = getattr(error, "detail", None)
        message = str(error.args[0]) if error.args else str(error)
        try:
            faults = [Fault(one["path"], one["words"]) for one in _faults(detail or "")]
        except (msgspec.MsgspecError, KeyError):
            faults = [Fault("$", message)]
        why = next(why for kind, why in _WHY.items() if isinstance(error, kind))
        raise TriggerRefused(faults, message, why) from error


async def enrol(database: Database, here: Workspace, sequence: str, contact: int | str, actor: str) -> dict[str, Any]:
    """Enrol a contact by its id or key, or find its enrolment. Raises TriggerRefused."""
    with _refusals():
        (row,) = await database.fetch(_SQL["enrol"], sequence, *_contact(contact), *_place(here), actor)
    return dict(row)


async def enrol_audience(
    database: Database, here: Workspace, sequence: str, audience: Mapping[str, Any], actor: str
) -> dict[str, Any]:
    """Enrol an audience; return how many were enrolled, how many not, and why. Raises TriggerRefused."""
    with _refusals():
        (row,) = await database.fetch(_SQL["enrol_audience"], sequence, _json(audience).decode(), *_place(here), actor)
    return dict(row) | {"reasons": _objects(row["reasons"])}


async def change(
    database: Database,
    here: Workspace,
    sequence: str,
    verb: str,
    audience: Mapping[str, Any] | None,
    reason: str,
    actor: str,
    *,
    most: int,
) -> int:
    """Pause, resume or cancel enrolments of an audience, or all; return how many. Raises TriggerRefused."""
    said = None if audience is None else _json(audience).decode()
    with _refusals():
        return int(await database.value(_SQL["change"], *_place(here), sequence, verb, said, reason, actor, most))


async def act(database: Database, here: Workspace, verb: str, enrolment: int, reason: str, actor: str) -> str:
    """Pause, resume or cancel an enrolment; return done, cancelled, same, unknown, or how it has ended."""
    return str(await database.value(_SQL["act"], verb, enrolment, reason, *_place(here), actor))


async def event(database: Database, here: Workspace, name: str, contact: int | str, actor: str) -> int:
    """Tell of an event of a contact; return how many enrolments it has ended. Raises TriggerRefused."""
    with _refusals():
        return int(await database.value(_SQL["event"], name, *_contact(contact), *_place(here), actor))


async def preview_move(
    database: Database, here: Workspace, sequence: str, start: int, end: int
) -> list[dict[str, Any]]:
    """Return what a move of PREVIEWED_MAX enrolments would do, in groups. Raises TriggerRefused."""
    with _refusals():
        rows = await database.fetch(_SQL["preview_move"], *_place(here), sequence, start, end, PREVIEWED_MAX)
    return [dict(row) for row in rows]


async def move(
    database: Database, here: Workspace, sequence: str, start: int, end: int, actor: str, *, after: int, most: int
) -> dict[str, Any]:
    """Move enrolments behind an id to another version; return how many. Raises TriggerRefused."""
    with _refusals():
        (row,) = await database.fetch(_SQL["move"], *_place(here), sequence, start, end, after, most, actor)
    return dict(row)


async def listed(
    database: Database, sequence_id: int, before: int, count: int, status: str | None, contact: str | None
) -> list[dict[str, Any]]:
    """Return enrolments below an id, the newest first."""
    rows = await database.fetch(_SQL["enrollments"], sequence_id, before, count, status, contact)
    return [dict(row) for row in rows]


async def show(database: Database, here: Workspace, enrolment: int) -> dict[str, Any] | None:
    """Return an enrolment with its logs, or None."""
    rows = await database.fetch(_SQL["enrollment"], *_place(here), enrolment)
    if not rows:
        return None
    logs = [dict(row) for row in await database.fetch(_SQL["logs"], enrolment)]
    return dict(rows[0]) | {"logs": logs}


async def contact_id(database: Database, here: Workspace, contact: int | str) -> int | None:
    """Return the id of a contact, or None."""
    found: int | None = await database.value(_SQL["contact"], *_contact(contact), *_place(here))
    return found
