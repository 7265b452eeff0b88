"""The schema: the baseline, migrations, their ledger, and what the database itself refuses."""

import asyncio

import asyncpg
import pytest

from dispatcher.base.errors import MigrationChanged, SchemaBehind, SchemaTooNew, SchemaUnreleased
from dispatcher.db.schema import baseline, migrator
from dispatcher.db.statements import statements
from tests.support.scene import Connection


async def test_a_new_database_is_made_once(empty_url: str) -> None:
    assert [one.version for one in await migrator.migrate(empty_url)] == [migrator.BASELINE]
    assert await migrator.migrate(empty_url) == []


async def test_two_that_migrate_at_once_apply_everything_once(empty_url: str) -> None:
    runs = await asyncio.gather(*(migrator.migrate(empty_url) for _ in range(4)))
    assert [one.version for run in runs for one in run] == [migrator.BASELINE]


async def test_applied_migrations_are_recorded(connection: Connection) -> None:
    rows = await connection.fetch("SELECT * FROM dispatcher.schema_migrations ORDER BY version")
    assert [(row["version"], row["name"], row["checksum"]) for row in rows] == [
        (one.version, one.name, one.checksum) for one in (migrator.newest(), *migrator.migrations())
    ]
    await migrator.require(connection)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE dispatcher.schema_migrations SET checksum = 'another' WHERE version = 0",
        "UPDATE dispatcher.schema_migrations SET version = 29, name = 'executions' WHERE version = 0",
    ],
)
async def test_a_schema_that_no_release_made_is_refused(url: str, connection: Connection, change: str) -> None:
    await connection.execute(change)
    with pytest.raises(SchemaUnreleased, match=r"DROP SCHEMA dispatcher CASCADE.*data_dir"):
        await migrator.require(connection)
    with pytest.raises(SchemaUnreleased):
        await migrator.migrate(url)
    await connection.execute("DROP SCHEMA dispatcher CASCADE")
    assert [one.version for one in await migrator.migrate(url)] == [migrator.BASELINE]


async def test_a_migration_that_was_changed_later_is_refused(
    url: str, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrator, "migrations", lambda: [migrator.Migration(1, "more", "SELECT 1")])
    await migrator.migrate(url)
    monkeypatch.setattr(migrator, "migrations", lambda: [migrator.Migration(1, "more", "SELECT 2")])
    with pytest.raises(MigrationChanged, match="0001_more"):
        await migrator.require(connection)
    with pytest.raises(MigrationChanged):
        await migrator.migrate(url)


async def test_a_newer_schema_is_refused(url: str, connection: Connection) -> None:
    await connection.execute(
        "INSERT INTO dispatcher.schema_migrations (version, name, checksum) VALUES (9999, 'of_tomorrow', 'x')"
    )
    with pytest.raises(SchemaTooNew, match="9999"):
        await migrator.require(connection)
    with pytest.raises(SchemaTooNew):
        await migrator.migrate(url)


async def test_an_older_schema_is_named_by_what_it_lacks(empty_url: str) -> None:
    connection = await asyncpg.connect(empty_url)
    try:
        with pytest.raises(SchemaBehind, match="0000_baseline"):
            await migrator.require(connection)
    finally:
        await connection.close()


async def test_a_new_database_that_fails_has_nothing(empty_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = f"{baseline.text()}; SELECT 1 / 0"
    monkeypatch.setattr(baseline, "text", lambda: broken)
    with pytest.raises(asyncpg.DivisionByZeroError):
        await migrator.migrate(empty_url)
    connection = await asyncpg.connect(empty_url)
    try:
        assert await migrator.applied(connection) == {}
        assert await connection.fetchval("SELECT to_regnamespace('dispatcher')") is None
    finally:
        await connection.close()


async def test_a_migration_that_fails_leaves_nothing_of_itself(
    url: str, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = migrator.Migration(1, "broken", "CREATE TABLE dispatcher.half (id int); SELECT 1 / 0")
    monkeypatch.setattr(migrator, "migrations", lambda: [broken])
    with pytest.raises(asyncpg.DivisionByZeroError):
        await migrator.migrate(url)
    assert list(await migrator.applied(connection)) == [migrator.BASELINE]
    assert await connection.fetchval("SELECT to_regclass('dispatcher.half')") is None


async def test_every_table_has_a_key_for_logical_replication(connection: Connection) -> None:
    rows = await connection.fetch(
        "SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'dispatcher'::regnamespace AND c.relkind = 'r'"
        " AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)"
    )
    assert [row["relname"] for row in rows] == []


async def test_a_plain_insert_is_due(connection: Connection) -> None:
    await connection.execute(
        "INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template)"
        " VALUES ('k', 'sms', '+1', $1)",
        '{"body": "x"}',
    )
    (row,) = await connection.fetch("SELECT * FROM dispatcher.delivery_life")
    assert (row["life"], row["channel"], row["attempt"]) == ("pending", "sms", 0)


def test_statements_have_names_and_reasons() -> None:
    for noun in (
        "dispatcher.engine.store.claims",
        "dispatcher.engine.store.flushes",
        "dispatcher.engine.store.instances",
        "dispatcher.engine.store.marks",
        "dispatcher.features.deliveries.store",
    ):
        for name, text in statements(noun).items():
            assert text.startswith("-- "), f"{noun}.{name} does not say why it is there"
