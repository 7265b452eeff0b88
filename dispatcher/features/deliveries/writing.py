"""Writing deliveries for a caller: each is written or refused, independently of the others in the batch."""

from collections.abc import Iterator, Sequence

import asyncpg

from dispatcher.base.errors import Fault
from dispatcher.db.database import Database
from dispatcher.features.deliveries.store import New, Written, insert
from dispatcher.features.templates import store as templates

# In one statement: asyncpg encodes about 1 MB, and 200 rows, in a millisecond.
PAGE_CHARACTERS_MAX = 2_000_000
PAGE_MAX = 1_000
# Errors of a row that a repetition cannot cure.
_REFUSED_BY_DATABASE = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.ProgramLimitExceededError,
    asyncpg.UntranslatableCharacterError,
)


async def write(database: Database, batch: Sequence[New]) -> list[Written | Fault]:
    """Write a batch; return for each the delivery that holds its key, or why it is refused."""
    places = [number for number, new in enumerate(batch) if new.template is None]
    named = [batch[place] for place in places]
    asked = [(new.tenant_id, new.workspace_id, new.template_name or "", new.channel) for new in named]
    found = zip(places, await templates.faults(database, asked), strict=True)
    refused = {number: Fault("template_name", words) for number, words in found if words is not None}
    sound = [new for number, new in enumerate(batch) if number not in refused]
    written = iter(await _write(database, sound, alone=len(batch) == 1))
    return [refused[number] if number in refused else next(written) for number in range(len(batch))]


def _pages(batch: Sequence[New]) -> Iterator[Sequence[New]]:
    """Split a batch into pages that can be encoded without holding the event loop."""
    first = size = 0
    for number, new in enumerate(batch):
        size += len(new.variables) + len(new.template or "") + len(new.options)
        if size >= PAGE_CHARACTERS_MAX or number - first >= PAGE_MAX:
            yield batch[first : number + 1]
            first, size = number + 1, 0
    if first < len(batch):
        yield batch[first:]


async def _write(database: Database, batch: Sequence[New], *, alone: bool = False) -> list[Written | Fault]:
    """Write a batch; one that the database refuses is halved until the faulty delivery is alone."""
    if not batch:
        return []
    try:
        # Most requests have one delivery, and nothing else in their transaction: it needs no savepoint.
        if alone:
            return list(await insert(database, batch))
        async with database.attempt():
            return [one for page in _pages(batch) for one in await insert(database, page)]
    except _REFUSED_BY_DATABASE as refusal:
        if len(batch) == 1:
            return [Fault("database", f"refuses it: {refusal}")]
        middle = len(batch) // 2
        return await _write(database, batch[:middle]) + await _write(database, batch[middle:])
