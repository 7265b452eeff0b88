"""Copying: what differs on the target is deleted there, and comes as a binary COPY from the source."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence

from msgspec import Struct

from dispatcher.base.schema_name import SCHEMA, render
from dispatcher.db.statements import statements
from dispatcher.features.cells.moving.rows.digests import Digests, Part, Side, delete
from dispatcher.features.cells.moving.rows.tables import Table

_SQL = statements(__name__)

# Of the rows that the planner knows of: with more new ones it plans anew.
GROWN_SHARE = 0.2
# Pieces of a COPY between the two connections; each is as large as a buffer of the socket.
PIECES_MAX = 64


class Change(Struct, frozen=True):
    """What is to be done for a part of a table: for all of its rows, or for those with some hashes."""

    table: Table
    part: Part
    deletes: bool
    copies: bool
    hashes: Sequence[int] | None = None


async def change_of(source: Side, target: Side, table: Table, part: Part, wanted: Digests, there: Digests) -> Change:
    """Return what makes a part of the target as that of the source."""
    if part not in there or part not in wanted:
        return Change(table, part, deletes=part in there, copies=part in wanted)
    theirs = await source.hashes(table, part)
    ours = await target.hashes(table, part)
    differing = [one for one in theirs.keys() | ours.keys() if theirs[one] != ours[one]]
    return Change(
        table,
        part,
        deletes=any(one in ours for one in differing),
        copies=any(one in theirs for one in differing),
        hashes=differing,
    )


async def apply(source: Side, target: Side, changes: Sequence[Change]) -> Counter[str]:
    """Make changes on the target, in its transaction; children are deleted first and copied last.

    Returns how many rows were copied, by table. Where that is most of a table the planner is told: it would join tables
    that it takes for empty by reading one of them whole for each row of the other.
    """
    for change in reversed(changes):
        if change.deletes:
            rows = target.rows(change.table, change.part, change.hashes)
            await target.connection.execute(delete(change.table, rows))
    copied = Counter[str]()
    for change in changes:
        if change.copies:
            copied[change.table.name] += await _copy(source, target, change)
    grown = await target.connection.fetch(_SQL["grown"], list(copied), list(copied.values()), GROWN_SHARE)
    for row in grown:
        await target.connection.execute(f"ANALYZE {row['name']}")
    return copied


async def _copy(source: Side, target: Side, change: Change) -> int:
    """Copy rows from one server to the other. Returns how many they were."""
    pieces: asyncio.Queue[bytes | None] = asyncio.Queue(PIECES_MAX)
    rows = source.rows(change.table, change.part, change.hashes)

    async def read() -> None:
        await source.connection.copy_from_query(
            render(f"SELECT {source.select(change.table)} {rows}"), output=pieces.put, format="binary"
        )
        # Not after a failure: the target would take what has come so far for everything.
        await pieces.put(None)

    async with asyncio.TaskGroup() as group:
        group.create_task(read())
        written = group.create_task(
            target.connection.copy_to_table(
                change.table.name,
                schema_name=SCHEMA,
                columns=list(source.columns[change.table.name].names),
                source=_pieces(pieces),
                format="binary",
            )
        )
    return int(written.result().rpartition(" ")[2])


async def _pieces(queue: "asyncio.Queue[bytes | None]") -> AsyncIterator[bytes]:
    while (piece := await queue.get()) is not None:
        yield piece
