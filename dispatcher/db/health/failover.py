"""Failover detection: which server and timeline a connection leads to.

A server that was restored or promoted may have forgotten marks. What may have been attempted is quarantined before any
connection to it is used, and the epoch that knew the old server ends.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import structlog
from msgspec import Struct

from dispatcher.base.errors import ConfigError, DatabaseUnavailable, Fault
from dispatcher.db.statements import statements

log = structlog.get_logger(__name__)

_SQL = statements(__name__)

# A million deliveries take a quarter of a minute; what takes an hour hangs.
QUARANTINE_SECONDS_MAX = 3_600.0
# Errors of a server or database that has no schema of ours, or is a standby.
_ELSEWHERE = (
    asyncpg.InvalidSchemaNameError,
    asyncpg.UndefinedFunctionError,
    asyncpg.ObjectNotInPrerequisiteStateError,
)


class Cluster(Struct, frozen=True):
    """The identity of a database. A failover changes the timeline, a restore at least one of these."""

    system_identifier: int
    timeline: int
    database_oid: int
    schema_oid: int


class FailoverWatch:
    """Detects connections that lead to another cluster than before."""

    def __init__(self, expire: Callable[[], Awaitable[None]]) -> None:
        self._expire = expire
        self._cluster: Cluster | None = None
        # Called after a change, when what may have been attempted is quarantined.
        self.moved: Callable[[], None] = lambda: None
        self.watching = False

    async def watch(self, connection: Any) -> None:  # noqa: ANN401 - the pool's connection carries no types of ours
        """Check this connection, and from now on each new one."""
        await self.check(connection)
        self.watching = True
        await self._expire()

    async def admit(self, connection: Any) -> None:  # noqa: ANN401 - as above
        """Admit a new connection. Raises DatabaseUnavailable if it leads to another cluster than the others."""
        if self.watching and await self.check(connection):
            raise DatabaseUnavailable("the connection leads to another server, or another timeline of it")

    async def require_same(self, connection: Any) -> None:  # noqa: ANN401 - as above
        """Raise ConfigError unless a connection from outside the pool leads to the same database as the pool's."""
        try:
            *cluster, _ = await connection.fetchrow(_SQL["identify"])
        except _ELSEWHERE:
            cluster = []
        if not cluster or Cluster(*cluster) != self._cluster:
            words = "leads to another server or database than database.url"
            raise ConfigError([Fault("database.listen_url", words)])

    async def check(self, connection: Any) -> bool:  # noqa: ANN401 - as above
        """Whether this is another cluster than before; then it has been quarantined, and `moved` was called."""
        try:
            *cluster, known = await connection.fetchrow(_SQL["identify"])
        except asyncpg.ObjectNotInPrerequisiteStateError as standby:
            raise DatabaseUnavailable("the server is a standby, which may be promoted meanwhile") from standby
        quarantined = None if known else await _note(connection)
        before, self._cluster = self._cluster, Cluster(*cluster)
        if quarantined is None and before in (None, self._cluster):
            return False
        log.error("cluster.changed", quarantined=quarantined or 0)
        await self._expire()
        self.moved()
        return True


async def _note(connection: Any) -> int | None:  # noqa: ANN401 - as above
    """Store the cluster, and quarantine unless it is the first; None if another instance has done so."""
    async with connection.transaction():
        await connection.execute(_SQL["allow_time"], str(int(QUARANTINE_SECONDS_MAX * 1_000)))
        return await connection.fetchval(_SQL["note"], timeout=QUARANTINE_SECONDS_MAX)  # type: ignore[no-any-return]  # a bigint or null
