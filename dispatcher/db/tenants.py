"""Tenants: the role that sees only one workspace, and the transaction in which a request has this role."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncpg
import structlog

from dispatcher.base.errors import TenantRoleMissing
from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database, within
from dispatcher.db.statements import statements

log = structlog.get_logger(__name__)

_SQL = statements(__name__)

ROLE = "dispatcher_tenant"
# Undoing it restores the settings as well, so that the rest of the transaction may write.
_SAVEPOINT = "SAVEPOINT ours"
_RELEASE = "RELEASE SAVEPOINT ours"
_UNDO = f"ROLLBACK TO SAVEPOINT ours; {_RELEASE}"
# Several databases of one server may be migrated at once: the second finds the role there, or tries again.
TRIES_MAX = 10
_CONCURRENT = (asyncpg.DuplicateObjectError, asyncpg.UniqueViolationError, asyncpg.InternalServerError)


class Transaction(Database):
    """One transaction in the form of a Database. A statement that fails ends it, unless inside `savepoint`."""

    def __init__(self, connection: Any) -> None:  # noqa: ANN401 - the pool's connection carries no types of ours
        self._connection = connection

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        yield self._connection

    async def fetch(self, query: str, *arguments: object) -> Any:  # noqa: ANN401 - asyncpg's rows
        return await self._connection.fetch(query, *arguments)

    async def fetch_read_only(self, query: str, *arguments: object) -> Any:  # noqa: ANN401 - asyncpg's rows
        """Return the rows of one statement that may write nothing; None if it tries to write."""
        rows: Any = None
        async with within(self._connection, f"{_SAVEPOINT}; SET LOCAL transaction_read_only = on", _UNDO, _UNDO):
            with suppress(asyncpg.ReadOnlySQLTransactionError):
                rows = await self._connection.fetch(query, *arguments)
        return rows

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """Undo what fails within alone."""
        async with within(self._connection, _SAVEPOINT, _RELEASE, _UNDO):
            yield


@asynccontextmanager
async def transaction(
    database: Database, workspace: Workspace, *, operators: bool = False, lock_seconds: float | None = None
) -> AsyncIterator[Transaction]:
    """A transaction bound to one workspace: no statement in it sees or writes a row of another.

    Operators also see and write the keys and pauses of all workspaces. A lock is waited for during `lock_seconds`, or
    for as long as statements may take.
    """
    # In one message: a round trip each would be felt.
    begin = f"{database.begin}; {_settings(workspace, operators, lock_seconds)}"
    async with database.session() as connection, within(connection, begin):
        yield Transaction(connection)


@asynccontextmanager
async def all_workspaces(database: Database) -> AsyncIterator[Transaction]:
    """A transaction as the role that connects: for a local operator's command, which may be about every workspace."""
    async with database.session() as connection, within(connection, database.begin):
        yield Transaction(connection)


def _settings(workspace: Workspace, operators: bool, lock_seconds: float | None) -> str:
    return (
        f"SET LOCAL ROLE {ROLE}; SET LOCAL dispatcher.tenant = {_literal(workspace.tenant_id)}; "
        f"SET LOCAL dispatcher.workspace = {_literal(workspace.workspace_id)}"
        + ("; SET LOCAL dispatcher.operators = 'yes'" if operators else "")
        + ("" if lock_seconds is None else f"; SET LOCAL lock_timeout = {lock_seconds * 1000:.0f}")
    )


def _literal(text: str) -> str:
    """Return a text as an SQL literal, whatever standard_conforming_strings is."""
    quoted = text.replace("'", "''")
    return "E'" + quoted.replace("\\", "\\\\") + "'" if "\\" in quoted else f"'{quoted}'"


async def require(connection: Any) -> None:  # noqa: ANN401 - the pool's connection carries no types of ours
    """Raise TenantRoleMissing unless requests can be served as the role."""
    row = await connection.fetchrow(_SQL["find"])
    if not row["ours"]:
        raise TenantRoleMissing(_instructions(row["we"], make=row["ours"] is None))
    if not row["granted"]:
        raise TenantRoleMissing(
            f"this schema was restored when there was no role {ROLE}: now there is, so restore it again"
        )


async def prepare(connection: Any) -> None:  # noqa: ANN401 - the pool's connection carries no types of ours
    """Create the role where it is missing, and grant it to us; raises what an administrator has to do first."""
    for _ in range(TRIES_MAX):
        row = await connection.fetchrow(_SQL["find"])
        if row["ours"]:
            break
        try:
            await connection.execute(_SQL["create" if row["ours"] is None else "grant"])
        except asyncpg.InsufficientPrivilegeError as refused:
            raise TenantRoleMissing(_instructions(row["we"], make=row["ours"] is None)) from refused
        except _CONCURRENT as rival:
            log.info("tenants.another_makes_it", error=type(rival).__name__)
    else:
        raise TenantRoleMissing(f"the role {ROLE} is changed by others at each of {TRIES_MAX} tries")


def _instructions(we: str, *, make: bool) -> str:
    create = f"CREATE ROLE {ROLE} NOLOGIN; " if make else ""
    ourselves = we.replace('"', '""')
    why = "missing" if make else "not ours to take"
    return (
        f"the role {ROLE}, as which requests are served, is {why}: "
        f'let an administrator run {create}GRANT {ROLE} TO "{ourselves}";'
    )
