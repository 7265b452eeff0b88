"""The plan of a move: what there is to copy, how long it takes, and why it is refused."""

from collections.abc import AsyncIterator, Iterator, Sequence

import asyncpg
from msgspec import Struct

from dispatcher.base.errors import Fault, MoveRefused
from dispatcher.db.statements import statements
from dispatcher.features.cells.moving.cell_connections import AS_THEY_ARE, AS_USUAL, Cell
from dispatcher.features.cells.moving.rows.tables import ELSEWHERE, FAMILIES, Table, filled, rows_of, tables

_SQL = statements(__name__)

# Of 1,100,000 deliveries with their states, on a machine with two cores: rows copied, and rows compared.
COPIED_PER_SECOND = 60_000
COMPARED_PER_SECOND = 500_000
# The source is compared twice and the target once.
COMPARISONS = 3


class TableSize(Struct, frozen=True):
    """Rows of a tenant in a table; `late` ones are copied while the tenant stands still."""

    table: str
    rows: int
    late: int
    bytes: int


class Plan(Struct, frozen=True):
    """What a move would do, and about how long it takes; for `still_seconds` of it the tenant sends nothing."""

    tenant_id: str
    source: int
    target: int
    rows: int
    bytes: int
    seconds: float
    still_seconds: float
    tables: Sequence[TableSize]
    warnings: Sequence[str]


async def plan_of(source: Cell, target: Cell, tenant: str) -> Plan:
    """Return the plan, by the sizes of all tables that have rows of the tenant."""
    sizes = [await _size(source, tenant, table, family.early) for family in FAMILIES for table in family.tables]
    rows, late = sum(one.rows for one in sizes), sum(one.late for one in sizes)
    compared = rows / COMPARED_PER_SECOND
    return Plan(
        tenant_id=tenant,
        source=source.number,
        target=target.number,
        rows=rows,
        bytes=sum(one.bytes for one in sizes),
        seconds=round(rows / COPIED_PER_SECOND + COMPARISONS * compared, 1),
        still_seconds=round(late / COPIED_PER_SECOND + compared, 1),
        tables=[one for one in sizes if one.rows],
        warnings=[row["words"] for row in await target.control.fetch(_SQL["warnings"])],
    )


async def _size(source: Cell, tenant: str, table: Table, early: bool) -> TableSize:
    done = table.is_done if early else "false"
    row = await source.control.fetchrow(
        f"SELECT count(*) AS rows, count(*) FILTER (WHERE NOT ({done})) AS late, "
        f"coalesce(sum(pg_column_size(t.*)), 0)::bigint AS bytes {rows_of(table, tenant)}"
    )
    if row is None:
        raise RuntimeError("an aggregate returned no row")
    return TableSize(table.name, row["rows"], row["late"], row["bytes"])


async def require_possible(source: Cell, target: Cell, tenant: str, *, is_new: bool) -> None:
    """Raise MoveRefused with every reason why the tenant cannot be moved."""
    faults = [*_of_schemas(source, target)]
    faults += await _of_rights(source, "source") + await _of_rights(target, "target")
    faults += await _of_versions(source, target)
    if is_new:
        faults += await _of_rows(source, target, tenant)
    if faults:
        raise MoveRefused(faults)


def _of_schemas(source: Cell, target: Cell) -> Iterator[Fault]:
    named = {table.name for table in tables()} | set(ELSEWHERE)
    for name in sorted(source.columns.keys() - named):
        yield Fault(f"source.{name}", "is a table that the move does not know: remove it from the schema")
    for name in sorted(source.columns):
        if source.columns[name] != target.columns.get(name):
            yield Fault(f"target.{name}", "has other columns than in the source: run one release in both cells")


async def _of_rights(cell: Cell, side: str) -> list[Fault]:
    """Return what the role of the URL may not do."""
    faults = []
    if not await cell.control.fetchval(_SQL["sees_transactions"]):
        faults.append(Fault(side, "the role must see all transactions: GRANT pg_read_all_stats to it"))
    try:
        await cell.control.execute(AS_THEY_ARE)
        await cell.control.execute(AS_USUAL)
    except asyncpg.InsufficientPrivilegeError:
        words = "the role must copy rows as they are: GRANT SET ON PARAMETER session_replication_role to it"
        faults.append(Fault(side, words))
    return faults


async def _of_versions(source: Cell, target: Cell) -> list[Fault]:
    ours, theirs = [await cell.control.fetch(_SQL["migrations"]) for cell in (source, target)]
    if [tuple(row) for row in ours] != [tuple(row) for row in theirs]:
        return [Fault("target", "has another version of the schema: run one release in both cells")]
    return []


async def _of_rows(source: Cell, target: Cell, tenant: str) -> list[Fault]:
    """Return what stands against a move that begins."""
    if not [table async for table in _with_rows(source, tenant)]:
        return [Fault("tenant", f"{tenant!r} has nothing in cell {source.number}: check the name")]
    words = "has rows of the tenant that are not of this move: look at them, then delete them"
    return [Fault(f"target.{name}", words) async for name in _with_rows(target, tenant)]


async def _with_rows(cell: Cell, tenant: str) -> AsyncIterator[str]:
    for table in tables():
        # What operators pause everywhere, they pause in every cell.
        more = filled(" AND t.tenant_id = {tenant}", tenant) if table.name == "pauses" else ""
        if await cell.control.fetchval(f"SELECT EXISTS (SELECT {rows_of(table, tenant)}{more})"):
            yield table.name
