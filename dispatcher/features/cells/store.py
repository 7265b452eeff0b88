"""Cells as operators see them: each is asked by its database and by its API, all at once, and for a short time."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import aiohttp
import msgspec
from msgspec import Struct, structs

from dispatcher.base.directory import Directory, DirectoryFile, Entry
from dispatcher.base.errors import ConfigError, Fault, NotPlaced
from dispatcher.config.settings import Config
from dispatcher.config.settings import Database as Settings
from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.features.cells.rules import Placement, Seen

_SQL = statements(__name__)

# A cell that is dead costs whoever looks at all of them no longer than this.
LOOK_SECONDS_MAX = 2.0
COUNTED_MAX = 10_000
READY_BYTES_MAX = 65_536
KEY = "cell.directory"


class _Ready(Struct, frozen=True):
    cell: int = 0
    version: str = ""
    reasons: Sequence[str] = ()


def directory(config: Config) -> Directory:
    """Return the configured directory. Raises ConfigError where there is none, or it has faults."""
    if not config.cell.directory:
        raise ConfigError([Fault(KEY, "is not set: name the file that says where all cells are")])
    return DirectoryFile(config.cell.directory).read()


async def look(found: Directory) -> list[Seen]:
    """Return what each cell says of itself."""
    return list(await asyncio.gather(*map(_look, found.cells)))


async def _look(entry: Entry) -> Seen:
    seen = Seen(number=entry.number, url=entry.url)
    by_database, by_api = await asyncio.gather(_by_database(entry), _by_api(entry))
    return structs.replace(seen, **by_database, **by_api)


async def _by_database(entry: Entry) -> dict[str, object]:
    if not entry.database:
        return {}
    try:
        async with asyncio.timeout(LOOK_SECONDS_MAX), database_of(entry) as database:
            (cell,) = await database.fetch(_SQL["cell"])
            (backlog,) = await database.fetch(_SQL["backlog"], COUNTED_MAX)
            placed = await placements(database)
    except TimeoutError:
        return {"database_fault": f"it has not answered within {LOOK_SECONDS_MAX:g} s"}
    except Exception as fault:
        return {"database_fault": f"{type(fault).__name__}: {fault}"}
    return {
        "own_number": cell["number"],
        "takes_unlisted": cell["takes_unlisted"],
        "schema": cell["schema"],
        "outside": cell["outside"],
        "placements": placed,
        "waiting": backlog["waiting"],
        "held": backlog["held"],
    }


async def _by_api(entry: Entry) -> dict[str, object]:
    if not entry.url:
        return {}
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=LOOK_SECONDS_MAX)) as session,
            session.get(f"{entry.url.rstrip('/')}/readyz", allow_redirects=False) as response,
        ):
            said = msgspec.json.decode(await response.content.read(READY_BYTES_MAX), type=_Ready)
    except TimeoutError:
        return {"api_fault": f"it has not answered within {LOOK_SECONDS_MAX:g} s"}
    except (aiohttp.ClientError, OSError) as fault:
        return {"api_fault": str(fault) or type(fault).__name__}
    except msgspec.MsgspecError:
        return {"api_fault": "there is no dispatcher at this address"}
    return {"served": said.cell, "version": said.version, "reasons": said.reasons}


@asynccontextmanager
async def database_of(entry: Entry) -> AsyncIterator[Database]:
    """Open the database of a cell."""
    settings = Settings(url=entry.database, pool_max=4, connect_seconds_max=LOOK_SECONDS_MAX)
    async with Database(settings, entry.database) as database:
        yield database


async def placements(database: Database) -> list[Placement]:
    """Return the tenants that a cell has placed."""
    return [Placement(*row) for row in await database.fetch(_SQL["placements"])]


async def write(database: Database, tenant: str, entry: Entry, state: str, version: int) -> bool:
    """Place a tenant as one cell is to have it; False where that was said before."""
    return bool(await database.value(_SQL["place"], tenant, entry.number, entry.url, state, version))


async def tables_with(database: Database, tenant: str) -> list[str]:
    """Return the tables in which a tenant has rows."""
    names = [row["name"] for row in await database.fetch(_SQL["tables"])]
    held = ", ".join(f"EXISTS (SELECT FROM {name} WHERE tenant_id = $1)" for name in names)
    found = (await database.fetch(f"SELECT {held}", tenant))[0]
    return [name for name, has in zip(names, found, strict=True) if has]


async def place(found: Directory, tenant: str, number: int) -> int:
    """Give a tenant that has nothing anywhere else its cell; return the version. Raises NotPlaced with all faults.

    The others refuse it before its own cell takes it. Run again after a failure it ends what was begun.
    """
    target = found.cell(number)
    if target is None:
        raise _refused([f"there is no cell {number} in the directory"])
    seen = await look(found)
    faults = [f"cell {one.number} does not answer: {one.database_fault}" for one in seen if one.database_fault]
    faults += [f"cell {one.number} has no database in the directory" for one in found.cells if not one.database]
    if faults:
        raise _refused(faults)
    placed = {one.number: row for one in seen for row in one.placements if row.tenant_id == tenant}
    elsewhere = sorted({row.cell for row in placed.values() if row.cell != number})
    if elsewhere:
        raise _refused([f"{tenant} is in cell {elsewhere[0]}: move it with `tenants move {tenant} --to {number}`"])
    version = max([found.version, *(row.version for one in seen for row in one.placements)]) + 1
    for one in sorted(found.cells, key=lambda entry: entry.number == number):
        async with database_of(one) as database:
            if one is not target and (rows := await tables_with(database, tenant)):
                raise _refused([f"{tenant} has rows in cell {one.number} ({', '.join(rows)}): move it"])
            await write(database, tenant, target, "here" if one is target else "elsewhere", version)
    return version


def _refused(faults: Sequence[str]) -> NotPlaced:
    return NotPlaced("nothing was placed: " + "; ".join(faults))
