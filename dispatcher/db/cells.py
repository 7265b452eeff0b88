"""Cells, as the database knows them: errors of a tenant that is not at home here, and the number of this database."""

from typing import Any

import asyncpg
import msgspec
from msgspec import Struct

from dispatcher.base.directory import DirectoryFile
from dispatcher.base.errors import WrongCell
from dispatcher.config.cell import Cell
from dispatcher.db.statements import statements

_SQL = statements(__name__)


class TenantMoving(asyncpg.OperatorInterventionError):
    """The tenant is being moved to another cell: the statement may be repeated in a moment."""

    sqlstate = "57T01"


class TenantElsewhere(asyncpg.OperatorInterventionError):
    """The tenant is in another cell."""

    sqlstate = "57T02"


class Where(Struct, frozen=True):
    """Where a tenant is that was refused: its cell, where it is known, and that cell's address."""

    tenant_id: str = ""
    state: str = ""
    cell: int | None = None
    url: str = ""


_where = msgspec.json.Decoder(list[Where]).decode


def where(refused: TenantMoving | TenantElsewhere) -> Where:
    """Return what the DETAIL of a refusal says."""
    # asyncpg sets the detail without declaring it.
    detail: str | None = getattr(refused, "detail", None)
    try:
        return _where(detail or "")[0]
    except (msgspec.MsgspecError, IndexError):
        return Where()


async def require_here(database: Any, tenant: str) -> None:  # noqa: ANN401 - a database, which imports this
    """Raise TenantMoving or TenantElsewhere where a tenant is not at home here."""
    await database.fetch(_SQL["require_here"], tenant)


async def join(connection: Any, settings: Cell) -> None:  # noqa: ANN401 - the pool's connection carries no types of ours
    """Make the database the configured cell, or check that it is. By the directory only the default cell takes tenants
    that are not listed."""
    try:
        await connection.execute(_SQL["join"], settings.number)
        if settings.number and settings.directory:
            default = DirectoryFile(settings.directory).read().default
            await connection.execute(_SQL["take_unlisted"], settings.number == default)
    except asyncpg.ObjectNotInPrerequisiteStateError as refused:
        raise WrongCell(str(refused.args[0])) from refused
