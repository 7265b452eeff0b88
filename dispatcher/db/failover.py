"""The lookout: where a connection leads. A server that was restored or promoted meanwhile may have forgotten marks.
What may have been attempted is quarantined before any connection to it is used, and the epoch that knew the old one
ends.
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

# A million suspects take a quarter of a minute; what takes an hour hangs.
QUARANTINE_SECONDS_MAX = 3_600.0
# Errors of a server or database that has no schema of ours, or is a standby.
_ELSEWHERE = (
    asyncpg.InvalidSchemaNameError,
    asyncpg.UndefinedFunctionError,
    asyncpg.ObjectNotInPrerequisiteStateError,
)


class Place(Struct, frozen=True):
    """Where a database lives. A failover changes the timeline, a restore at least one of them."""

    system_identifier: int
    timeline: int
    database_oid: int
    schema_oid: int


class Lookout:
    """Looks where connections lead, and tells when that is another place than before."""

    def __init__(self, expire: Callable[[], Awaitable[None]]) -> None:
        # Lets no connection of before be used again.
        self._expire = expire
        self._place: Place | None = None
        # Called when we are somewhere else, and what may have been attempted there is quarantined.
        self.moved: Callable[[], None] = lambda: None
        self.watching = False

    async def watch(self, connection: Any) -> None:  # noqa: ANN401 - the pool's connection carries no types of ours
        """Look once, and from now on at each connection that is made."""
        await self.look(connection)
        self.watching = True
        await self._expire()

    async def admit(self, connection: Any) -> None:  # noqa: ANN401 - as above
        """Let a new connection be used if it leads where the others do. Whoever asked for it has to think again."""
        if self.watching and await self.look(connection):
            raise DatabaseUnavailable("it is another server, or another timeline of it")

    async def require_here(self, connection: Any) -> None:  # noqa: ANN401 - as above
        """Raise ConfigError unless a connection from outside the pool leads to the same database as the pool's."""
        try:
            *place, _ = await connection.fetchrow(_SQL["look"])
        except _ELSEWHERE:
            place = []
        if not place or Place(*place) != self._place:
            words = "leads to another server or database than database.url"
            raise ConfigError([Fault("database.listen_url", words)])

    async def look(self, connection: Any) -> bool:  # noqa: ANN401 - as above
        """Whether we are somewhere else than before; then everything that this means has been done."""
        try:
            *place, known = await connection.fetchrow(_SQL["look"])
        except asyncpg.ObjectNotInPrerequisiteStateError as standby:
            raise DatabaseUnavailable("it is a standby, which may be promoted under our feet") from standby
        quarantined = None if known else await _see(connection)
        before, self._place = self._place, Place(*place)
        if quarantined is None and before in (None, self._place):
            return False
        log.error("cluster.changed", quarantined=quarantined or 0)
        await self._expire()
        self.moved()
        return True


async def _see(connection: Any) -> int | None:  # noqa: ANN401 - as above
    """Note the place, and quarantine unless it is the first one; None where somebody else has."""
    async with connection.transaction():
        await connection.execute(_SQL["take_time"], str(int(QUARANTINE_SECONDS_MAX * 1_000)))
        return await connection.fetchval(_SQL["see"], timeout=QUARANTINE_SECONDS_MAX)  # type: ignore[no-any-return]  # a bigint or null
