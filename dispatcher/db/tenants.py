"""Tenants: the role that sees one workspace alone, and the transaction in which a request has that role."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import structlog

from dispatcher.base.errors import TenantRoleMissing
from dispatcher.base.workspace import Workspace
from dispatcher.db.database import PASSING_OR_CANCELLED, Database, within
from dispatcher.db.statements import statements

log = structlog.get_logger(__name__)

_SQL = statements(__name__)

ROLE = "dispatcher_tenant"
# It takes the setting back as well, so that the rest of the transaction may write.
_UNWRITTEN = "ROLLBACK TO SAVEPOINT unwritten; RELEASE SAVEPOINT unwritten"
# Several databases of one server may be migrated at once: whoever comes second finds it there, or looks again.
TRIES_MAX = 10
_SOMEBODY_ELSE = (asyncpg.DuplicateObjectError, asyncpg.UniqueViolationError, asyncpg.InternalServerError)


class Transaction(Database):
    """One transaction, for whatever works on a Database. A statement that fails ends it, unless inside `attempt`."""

    def __init__(self, connection: Any) -> None:  # noqa: ANN401 - the pool's connection carries no types of ours
        self._connection = connection

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        """The connection, inside the transaction."""
        yield self._connection

    async def fetch(self, query: str, *arguments: object) -> Any:  # noqa: ANN401 - asyncpg's rows
        """Rows of one statement."""
        return await self._connection.fetch(query, *arguments)

    async def fetch_unwritten(self, query: str, *arguments: object) -> Any:  # noqa: ANN401 - asyncpg's rows
        """Rows of one statement that may write nothing; None where it comes to writing."""
        rows: Any = None
        await self._connection.execute("SAVEPOINT unwritten; SET LOCAL transaction_read_only = on")
        try:
            rows = await self._connection.fetch(query, *arguments)
        except asyncpg.ReadOnlySQLTransactionError:
            pass
        except PASSING_OR_CANCELLED:
            raise
        except BaseException:
            await self._connection.execute(_UNWRITTEN)
            raise
        await self._connection.execute(_UNWRITTEN)
        return rows

    @asynccontextmanager
    async def attempt(self) -> AsyncIterator[None]:
        """A savepoint: what fails inside undoes itself alone."""
        await self._connection.execute("SAVEPOINT attempt")
        try:
            yield
        except PASSING_OR_CANCELLED:
            raise
        except BaseException:
            await self._connection.execute("ROLLBACK TO SAVEPOINT attempt; RELEASE SAVEPOINT attempt")
            raise
        await self._connection.execute("RELEASE SAVEPOINT attempt")


@asynccontextmanager
async def transaction(
    database: Database, whose: Workspace, *, operators: bool = False, lock_seconds: float | None = None
) -> AsyncIterator[Transaction]:
    """All or nothing, within one workspace: no row of another one is seen or written, whatever a statement says.

    Operators see and write the keys and the pauses of all, and of nothing else more than others. For what somebody else
    has locked it waits for `lock_seconds`, or for as long as statements may take.
    """
    # In one message: a round trip each would be felt.
    begin = f"{database.begin}; {_bounds(whose, operators, lock_seconds)}"
    async with database.session() as connection, within(connection, begin):
        yield Transaction(connection)


@asynccontextmanager
async def all_workspaces(database: Database) -> AsyncIterator[Transaction]:
    """All or nothing, as the role that connects: a local operator's command, which may be about every workspace."""
    async with database.session() as connection, within(connection, database.begin):
        yield Transaction(connection)


def _bounds(whose: Workspace, operators: bool, lock_seconds: float | None) -> str:
    return (
        f"SET LOCAL ROLE {ROLE}; SET LOCAL dispatcher.tenant = {_literal(whose.tenant_id)}; "
        f"SET LOCAL dispatcher.workspace = {_literal(whose.workspace_id)}"
        + ("; SET LOCAL dispatcher.operators = 'yes'" if operators else "")
        + ("" if lock_seconds is None else f"; SET LOCAL lock_timeout = {lock_seconds * 1000:.0f}")
    )


def _literal(text: str) -> str:
    """A text as SQL has it, whatever standard_conforming_strings says."""
    quoted = text.replace("'", "''")
    return "E'" + quoted.replace("\\", "\\\\") + "'" if "\\" in quoted else f"'{quoted}'"


async def require(connection: Any) -> None:  # noqa: ANN401 - the pool's connection carries no types of ours
    """Raise unless requests can be served as the role."""
    row = await connection.fetchrow(_SQL["find"])
    if not row["ours"]:
        raise TenantRoleMissing(_orders(row["we"], make=row["ours"] is None))
    if not row["granted"]:
        raise TenantRoleMissing(
            f"this schema was restored when there was no role {ROLE}: now there is, so restore it again"
        )


async def prepare(connection: Any) -> None:  # noqa: ANN401 - the pool's connection carries no types of ours
    """Make the role where it is missing, and be allowed to take it; raise what an administrator has to do first."""
    for _ in range(TRIES_MAX):
        row = await connection.fetchrow(_SQL["find"])
        if row["ours"]:
            break
        try:
            await connection.execute(_SQL["create" if row["ours"] is None else "grant"])
        except asyncpg.InsufficientPrivilegeError as refused:
            raise TenantRoleMissing(_orders(row["we"], make=row["ours"] is None)) from refused
        except _SOMEBODY_ELSE as rival:
            log.info("tenants.another_makes_it", error=type(rival).__name__)
    else:
        raise TenantRoleMissing(f"the role {ROLE} is changed by others all the time")


def _orders(we: str, *, make: bool) -> str:
    """What an administrator has to run."""
    create = f"CREATE ROLE {ROLE} NOLOGIN; " if make else ""
    ourselves = we.replace('"', '""')
    why = "missing" if make else "not ours to take"
    return (
        f"the role {ROLE}, as which requests are served, is {why}: "
        f'let an administrator run {create}GRANT {ROLE} TO "{ourselves}";'
    )
