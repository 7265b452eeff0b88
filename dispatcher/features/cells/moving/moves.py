"""Moves as the directory sees them: between which cells a tenant moves, and what the other cells are told."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec import Struct

from dispatcher.base.directory import Directory, Entry
from dispatcher.base.errors import Fault, MoveRefused
from dispatcher.db.database import PASSING, Database
from dispatcher.db.statements import statements
from dispatcher.features.cells import rules, store
from dispatcher.features.cells.moving.cell_connections import Place

_SQL = statements(__name__)
FIND = _SQL["find"]


class Result(Struct, frozen=True):
    """What has become of a move; for `still_seconds` the tenant has sent nothing."""

    tenant_id: str
    source: int
    target: int
    phase: str
    rows: int
    version: int
    still_seconds: float | None


async def places(directory: Directory, tenant: str, to: int) -> tuple[Place, Place]:
    """Return the cells that a tenant leaves and goes to: those of its move, or its home and the asked one."""
    seen = await store.look(directory)
    source = rules.newest(directory, seen).home(tenant).number
    for one in directory.cells:
        if one.database and one.number != to:
            async with _answering(one) as database:
                if database is not None and await database.fetch(FIND, tenant):
                    source = one.number
    entries = [directory.cell(number) for number in (source, to)]
    faults = [
        Fault(f"cell {number}", "has no database in the directory: add its URL")
        for number, entry in zip((source, to), entries, strict=True)
        if entry is None or not entry.database
    ]
    if source == to:
        faults.append(Fault("--to", f"tenant {tenant} is in cell {to} already: name another cell"))
    if faults:
        raise MoveRefused(faults)
    here, there = (Place(one.number, one.database, one.url) for one in entries if one is not None)
    return here, there


async def tell_others(directory: Directory, result: Result) -> list[str]:
    """Say to all other cells where the tenant is now; return the faults, after which they say where it was."""
    faults = []
    home = directory.cell(result.target if result.phase == "done" else result.source)
    for one in directory.cells:
        if home is None or one.number in (result.source, result.target) or not one.database:
            continue
        async with _answering(one) as database:
            if database is None:
                faults.append(
                    f"cell {one.number} does not answer, and sends callers to cell {result.source}, as before"
                )
            elif any(row.tenant_id == result.tenant_id for row in await store.placements(database)):
                await store.write(database, result.tenant_id, home, "elsewhere", result.version)
    return faults


@asynccontextmanager
async def _answering(entry: Entry) -> AsyncIterator[Database | None]:
    """Yield the database of a cell; None where it does not answer."""
    async with store.database_of(entry) as database:
        try:
            await database.fetch("SELECT 1")
        except PASSING:
            yield None
            return
        yield database
