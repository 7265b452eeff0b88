"""Digests: count and checksum of the rows of a tenant, by table and page, as either side has them.

A page that has another digest on the target than on the source is compared row by row, by the hash of each, so that
only what differs is copied again. The hash of a row is one of its values: both servers have to be of one architecture,
their versions may differ.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

import asyncpg
from msgspec import Struct

from dispatcher.features.cells.moving.rows.tables import PAGE_BITS, Table, filled, rows_of

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
# A page of a table, and whether its rows are those that are done.
Part: TypeAlias = tuple[int, bool]


class Columns(Struct, frozen=True):
    """The columns of a table; of some the text is hashed, since their type has no hash."""

    names: Sequence[str]
    as_text: Sequence[str]


class Digest(Struct, frozen=True):
    """How many rows there are, and the sum of their hashes."""

    rows: int
    checksum: int


NO_ROWS = Digest(0, 0)
Digests: TypeAlias = Mapping[Part, Digest]


class Side(Struct, frozen=True):
    """The rows of a tenant as one of the two cells has them. Of the source they are those that are copied."""

    connection: Connection
    tenant: str
    columns: Mapping[str, Columns]
    is_source: bool

    def select(self, table: Table) -> str:
        """Return the columns of a table as they are copied."""
        return ", ".join(self._value(table, name) for name in self.columns[table.name].names)

    def rows(self, table: Table, part: Part | None = None, hashes: Collection[int] | None = None) -> str:
        """Return the FROM and WHERE of all rows, those of a part, or those of a part with some hashes."""
        rows = rows_of(table, self.tenant)
        if part is None:
            return rows
        page, done = part
        rows += _between(table, page, page) + f" AND {'' if done else 'NOT '}({table.is_done})"
        if hashes is None:
            return rows
        return f"{rows} AND {self._hash(table)} = ANY ('{{{','.join(map(str, hashes))}}}'::bigint[])"

    async def pages(self, table: Table) -> list[int]:
        """Return the pages of a table that have any row of the tenant, also rows that are not copied."""
        found = await self.connection.fetch(
            f"SELECT DISTINCT {table.page} AS page {rows_of(table, self.tenant, all_rows=True)} ORDER BY 1"
        )
        return [row["page"] for row in found]

    async def count(self, table: Table, *, only_done: bool = False) -> int:
        """Return how many rows of the tenant are copied, or how many of them are done."""
        more = f" AND {table.is_done}" if only_done else ""
        return int(await self.connection.fetchval(f"SELECT count(*) {self.rows(table)}{more}"))

    async def delete_page(self, table: Table, page: int) -> None:
        """Delete all rows of a page, where triggers are switched off."""
        rows = rows_of(table, self.tenant, all_rows=True) + _between(table, page, page)
        await self.connection.execute(delete(table, rows))

    async def digests(self, table: Table, pages: Collection[int] = ()) -> dict[Part, Digest]:
        """Return the digest of each part of a table, of all pages or of some."""
        between = _between(table, min(pages), max(pages)) if pages else ""
        found = await self.connection.fetch(
            f"SELECT x.page, x.done, count(*) AS rows, sum(x.hash) AS checksum "  # noqa: S608 - names of our own tables
            f"FROM (SELECT {table.page} AS page, {table.is_done} AS done, {self._hash(table)} AS hash "
            f"{self.rows(table)}{between}) AS x GROUP BY 1, 2"
        )
        return {(row["page"], row["done"]): Digest(row["rows"], int(row["checksum"])) for row in found}

    async def hashes(self, table: Table, part: Part) -> Counter[int]:
        """Return the hashes of the rows of a part, each with how many rows have it."""
        found = await self.connection.fetch(f"SELECT {self._hash(table)} AS hash {self.rows(table, part)}")
        return Counter(row["hash"] for row in found)

    def _hash(self, table: Table) -> str:
        columns = self.columns[table.name]
        values = (self._value(table, name) + "::text" * (name in columns.as_text) for name in columns.names)
        return f"hash_record_extended(ROW({', '.join(values)}), 0)"

    def _value(self, table: Table, name: str) -> str:
        if self.is_source and name in table.instead:
            return f"({filled(table.instead[name], self.tenant)})"
        return f't."{name}"'


def delete(table: Table, rows: str) -> str:
    """Return the statement that deletes the rows of a FROM and WHERE."""
    return f"DELETE FROM {table.full_name} o WHERE o.ctid = ANY (ARRAY(SELECT t.ctid {rows}))"  # noqa: S608 - as above


def _between(table: Table, first: int, last: int) -> str:
    if not table.lead:
        return ""
    return f" AND t.{table.lead} BETWEEN {first << PAGE_BITS} AND {((last + 1) << PAGE_BITS) - 1}"


async def columns_of(connection: Connection) -> dict[str, Columns]:
    """Return the columns of all tables of the schema."""
    found = await connection.fetch(
        """
        SELECT c.relname AS name, array_agg(a.attname::text ORDER BY a.attname) AS columns,
               coalesce(array_agg(a.attname::text ORDER BY a.attname) FILTER (WHERE a.atttypid = 'json'::regtype), '{}')
                   AS as_text
          FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
           AND a.attgenerated = ''
         WHERE c.relkind IN ('r', 'p')
           AND c.relnamespace = (SELECT n.relnamespace FROM pg_class n WHERE n.oid = 'dispatcher.deliveries'::regclass)
         GROUP BY 1
        """
    )
    return {row["name"]: Columns(row["columns"], row["as_text"]) for row in found}


def different(wanted: Digests, there: Digests) -> Iterator[Part]:
    """Return the parts that differ, the oldest page first."""
    for part in sorted(wanted.keys() | there.keys()):
        if wanted.get(part, NO_ROWS) != there.get(part, NO_ROWS):
            yield part
