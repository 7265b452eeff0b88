"""The schema's version: numbered migrations under an advisory lock, with the checksum of each that was applied."""

import hashlib
import re
from collections.abc import Awaitable, Callable
from importlib import resources

import asyncpg
from msgspec import Struct

from dispatcher.errors import MigrationChanged, SchemaBehind, SchemaTooNew
from dispatcher.store import direct, tenants

# Any constant will do, as long as nobody else takes it: the first eight bytes of sha256("dispatcher migrate").
LOCK = int.from_bytes(hashlib.sha256(b"dispatcher migrate").digest()[:8], "big", signed=True)
CONNECT_SECONDS_MAX = 60.0
MIGRATION_SECONDS_MAX = 3_600.0

_FILE = re.compile(r"^(\d{4})_(\w+)\.sql$")
_LEDGER = """
CREATE SCHEMA IF NOT EXISTS dispatcher;
CREATE TABLE IF NOT EXISTS dispatcher.schema_migrations (
    version    integer PRIMARY KEY,
    name       text NOT NULL,
    checksum   text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
)
"""


class Migration(Struct, frozen=True):
    """One file of `migrations/`."""

    version: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """What an applied migration is recognised by."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


def migrations() -> list[Migration]:
    """Every migration of this release, in order and without a gap."""
    folder = resources.files("dispatcher.store").joinpath("migrations")
    found = [
        Migration(int(match[1]), match[2], entry.read_text(encoding="utf-8"))
        for entry in folder.iterdir()
        if (match := _FILE.match(entry.name))
    ]
    found.sort(key=lambda migration: migration.version)
    if [migration.version for migration in found] != list(range(1, len(found) + 1)):
        raise ValueError("migrations are not numbered 1, 2, 3 …")
    return found


# Brings the schema of the database at a URL up to date, and answers what was missing.
Migrate = Callable[[str], Awaitable[list[Migration]]]


async def applied(connection: "asyncpg.Connection[asyncpg.Record]") -> dict[int, tuple[str, str]]:
    """Name and checksum of what a database has, by version; nothing where it was never migrated."""
    if await connection.fetchval("SELECT to_regclass('dispatcher.schema_migrations')") is None:
        return {}
    rows = await connection.fetch("SELECT version, name, checksum FROM dispatcher.schema_migrations ORDER BY version")
    return {row["version"]: (row["name"], row["checksum"]) for row in rows}


def pending(have: dict[int, tuple[str, str]]) -> list[Migration]:
    """What is missing. Refuses a database that is newer than this release, or whose history is another."""
    known = {migration.version: migration for migration in migrations()}
    newer = sorted(set(have) - set(known))
    if newer:
        raise SchemaTooNew(f"the database is at version {newer[-1]}, this release knows {max(known)}")
    for version, (name, checksum) in have.items():
        if known[version].checksum != checksum:
            raise MigrationChanged(f"{version:04}_{name} was applied with another text than this release has")
    return [migration for version, migration in sorted(known.items()) if version not in have]


async def migrate(url: str) -> list[Migration]:
    """Apply what is missing, each in its own transaction; who comes second waits and finds nothing to do.

    The lock is the session's, so the URL has to lead past any pooler: `direct_url`.
    """
    connection = await direct.connect(
        url,
        direct.MIGRATION,
        connect_seconds_max=CONNECT_SECONDS_MAX,
        statement_seconds_max=MIGRATION_SECONDS_MAX,
    )
    try:
        await connection.execute("SELECT pg_advisory_lock($1)", LOCK)
        missing = pending(await applied(connection))
        # First, so that nothing is half done where somebody else has to make the role.
        await tenants.prepare(connection)
        await connection.execute(_LEDGER)
        for migration in missing:
            async with connection.transaction():
                await connection.execute(migration.sql)
                await connection.execute(
                    "INSERT INTO dispatcher.schema_migrations (version, name, checksum) VALUES ($1, $2, $3)",
                    migration.version,
                    migration.name,
                    migration.checksum,
                )
        return missing
    finally:
        await connection.close()


async def require(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    """Raise unless the database has exactly this release's schema."""
    missing = pending(await applied(connection))
    if missing:
        names = ", ".join(f"{migration.version:04}_{migration.name}" for migration in missing)
        raise SchemaBehind(f"not yet applied: {names}")
