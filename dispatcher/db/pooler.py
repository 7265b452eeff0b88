"""Direct connections: to Postgres without a pooler, for LISTEN and migrations, which need a session of their own."""

import asyncpg

from dispatcher.config.settings import Database as Settings
from dispatcher.db.database import Database, connecting, require_no_pooler
from dispatcher.db.renaming import CONNECTION

# Overrides of the role's defaults: a migration may take long, and a listener is idle most of the time. pgbouncer
# refuses both, as it should: through it notifications would be lost, and a migration's lock would not be released.
LASTING = {"statement_timeout": "0", "idle_session_timeout": "0"}
LISTENER = "dispatcher wakeup"
MIGRATION = "dispatcher migrate"


def url_of(settings: Settings, url: str) -> str:
    """Return the URL of Postgres itself: `listen_url`, or `url` where no pooler is configured."""
    return settings.listen_url or url


async def connect(
    url: str, name: str, *, connect_seconds_max: float, statement_seconds_max: float | None = None
) -> "asyncpg.Connection[asyncpg.Record]":
    """Return a direct connection. Raises ConfigError where it is a pooler that answers."""
    try:
        return await asyncpg.connect(
            url,
            timeout=connect_seconds_max,
            command_timeout=statement_seconds_max,
            server_settings={"application_name": name, **LASTING},
            connection_class=CONNECTION,
        )
    except asyncpg.ProtocolViolationError as refused:
        require_no_pooler(refused)
        raise


async def require(settings: Settings, database: Database) -> None:
    """Raise ConfigError unless `listen_url`, where it is set, leads directly to the same database as `url`."""
    if not settings.listen_url:
        return
    connection = await connecting(
        connect(settings.listen_url, LISTENER, connect_seconds_max=settings.connect_seconds_max)
    )
    try:
        await database.failover.require_same(connection)
    finally:
        connection.terminate()
