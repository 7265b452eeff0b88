"""The migrator: a new database gets the baseline, an older one the numbered migrations that it lacks.

The files of the baseline always describe the newest schema. A change of a released schema is made there, and as a
migration for older databases. What was applied is stored with its checksum, under an advisory lock.
"""

import hashlib
import re
from collections.abc import Awaitable, Callable
from importlib import resources

import asyncpg
from msgspec import Struct

from dispatcher.base.errors import MigrationChanged, SchemaBehind, SchemaTooNew, SchemaUnreleased
from dispatcher.db import pooler, tenants
from dispatcher.db.schema import baseline

# Any constant that nothing else uses: the first eight bytes of sha256("dispatcher migrate").
LOCK = int.from_bytes(hashlib.sha256(b"dispatcher migrate").digest()[:8], "big", signed=True)
CONNECT_SECONDS_MAX = 60.0
MIGRATION_SECONDS_MAX = 3_600.0
BASELINE = 0
# Checksums of the baselines of earlier releases, from which the numbered migrations lead here.
RELEASED: frozenset[str] = frozenset()

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

_RECREATE = (
    "the schema was made by a version that was never released, and cannot be migrated: recreate it; what it holds is "
    "lost. A Postgres of yours: DROP SCHEMA dispatcher CASCADE, then migrate. The embedded one: stop every dispatcher "
    "and delete its folder (database.data_dir; that of ./ops/run is .dispatcher in the checkout)"
)


class Migration(Struct, frozen=True):
    """One file of `migrations/`, or the baseline."""

    version: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def migrations() -> list[Migration]:
    """Return every migration of this release, in order and without a gap. There is none before the first release."""
    folder = resources.files(__package__).joinpath("migrations")
    found = [
        Migration(int(match[1]), match[2], entry.read_text(encoding="utf-8"))
        for entry in (folder.iterdir() if folder.is_dir() else ())
        if (match := _FILE.match(entry.name))
    ]
    found.sort(key=lambda migration: migration.version)
    if [migration.version for migration in found] != list(range(1, len(found) + 1)):
        raise ValueError("migrations are not numbered 1, 2, 3 …")
    return found


def newest() -> Migration:
    """Return the baseline, which has everything that the migrations do."""
    return Migration(BASELINE, "baseline", baseline.text())


# Brings the schema of the database at a URL up to date, and returns what was missing.
Migrate = Callable[[str], Awaitable[list[Migration]]]


async def applied(connection: "asyncpg.Connection[asyncpg.Record]") -> dict[int, tuple[str, str]]:
    """Return name and checksum of what a database has, by version."""
    if await connection.fetchval("SELECT to_regclass('dispatcher.schema_migrations')") is None:
        return {}
    rows = await connection.fetch("SELECT version, name, checksum FROM dispatcher.schema_migrations ORDER BY version")
    return {row["version"]: (row["name"], row["checksum"]) for row in rows}


def pending(have: dict[int, tuple[str, str]]) -> list[Migration]:
    """Return what is missing: the baseline, or migrations.

    Refuses a database that is newer than this release, that no release made, or whose history is another.
    """
    first = newest()
    if not have:
        return [first]
    if BASELINE not in have:
        raise SchemaUnreleased(_RECREATE)
    known = {migration.version: migration for migration in migrations()}
    if (last := max(have)) > max(known, default=BASELINE):
        raise SchemaTooNew(f"the database is at version {last}, this release knows {max(known, default=BASELINE)}")
    if have[BASELINE][1] not in {first.checksum, *RELEASED}:
        raise SchemaUnreleased(_RECREATE)
    for version, (name, checksum) in have.items():
        if version != BASELINE and known[version].checksum != checksum:
            raise MigrationChanged(f"{version:04}_{name} was applied with another text than this release has")
    return [migration for version, migration in sorted(known.items()) if version not in have]


async def migrate(url: str) -> list[Migration]:
    """Make a new database in one transaction, or apply each missing migration in its own; a second caller waits.

    The lock is the session's, so the URL has to lead past any pooler: `direct_url`.
    """
    connection = await pooler.connect(
        url,
        pooler.MIGRATION,
        connect_seconds_max=CONNECT_SECONDS_MAX,
        statement_seconds_max=MIGRATION_SECONDS_MAX,
    )
    try:
        await connection.execute("SELECT pg_advisory_lock($1)", LOCK)
        missing = pending(await applied(connection))
        # First, so that nothing is half done where an administrator has to create the role.
        await tenants.prepare(connection)
        for migration in missing:
            async with connection.transaction():
                await _apply(connection, migration)
        return missing
    finally:
        await connection.close()


async def _apply(connection: "asyncpg.Connection[asyncpg.Record]", migration: Migration) -> None:
    """Apply a migration; with the baseline all of them count as applied."""
    applied_with = [migration]
    if migration.version == BASELINE:
        await connection.execute(_LEDGER)
        applied_with += migrations()
    await connection.execute(migration.sql)
    for one in applied_with:
        await connection.execute(
            "INSERT INTO dispatcher.schema_migrations (version, name, checksum) VALUES ($1, $2, $3)",
            one.version,
            one.name,
            one.checksum,
        )


async def require(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    """Raise SchemaError unless the database has exactly this release's schema."""
    missing = pending(await applied(connection))
    if missing:
        names = ", ".join(f"{migration.version:04}_{migration.name}" for migration in missing)
        raise SchemaBehind(f"not yet applied: {names}")
