"""Writing deliveries for somebody who waits: each is written, or told why not, whatever its neighbours are."""

from collections.abc import Iterator, Sequence

import asyncpg

from dispatcher.base.errors import Fault
from dispatcher.db.database import Database
from dispatcher.features.deliveries.store import New, Written, insert
from dispatcher.features.templates import store as templates

# Of one statement: asyncpg encodes some 1 MB a millisecond, and 200 rows.
PAGE_CHARACTERS_MAX = 2_000_000
PAGE_MAX = 1_000
# The database says no to a row, whoever asks and however often.
_REFUSED_BY_DATABASE = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.ProgramLimitExceededError,
    asyncpg.UntranslatableCharacterError,
)


async def write(database: Database, batch: Sequence[New]) -> list[Written | Fault]:
    """Write a batch, but for those whose stored template is not there: whoever waits for the answer wants to know."""
    places = [number for number, new in enumerate(batch) if new.template is None]
    asked = [
        (one.tenant_id, one.workspace_id, one.template_name or "", one.channel)
        for one in map(batch.__getitem__, places)
    ]
    found = zip(places, await templates.faults(database, asked), strict=True)
    refused = {number: Fault("template_name", words) for number, words in found if words is not None}
    sound = [new for number, new in enumerate(batch) if number not in refused]
    written = iter(await _write(database, sound, alone=len(batch) == 1))
    return [refused[number] if number in refused else next(written) for number in range(len(batch))]


def _pages(batch: Sequence[New]) -> Iterator[Sequence[New]]:
    """As much of a batch at a time as can be sent to Postgres without holding the event loop."""
    first = size = 0
    for number, new in enumerate(batch):
        size += len(new.variables) + len(new.template or "") + len(new.options)
        if size >= PAGE_CHARACTERS_MAX or number - first >= PAGE_MAX:
            yield batch[first : number + 1]
            first, size = number + 1, 0
    if first < len(batch):
        yield batch[first:]


async def _write(database: Database, batch: Sequence[New], *, alone: bool = False) -> list[Written | Fault]:
    """Where the database refuses a batch, halves find the guilty, so that nobody else suffers."""
    if not batch:
        return []
    try:
        # Without a savepoint for one alone, which most are: whoever writes it in a transaction has nothing else there.
        if alone:
            return list(await insert(database, batch))
        async with database.savepoint():
            return [one for page in _pages(batch) for one in await insert(database, page)]
    except _REFUSED_BY_DATABASE as refusal:
        if len(batch) == 1:
            return [Fault("database", f"refuses it: {refusal}")]
        middle = len(batch) // 2
        return await _write(database, batch[:middle]) + await _write(database, batch[middle:])
