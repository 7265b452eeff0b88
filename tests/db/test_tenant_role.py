"""The role of tenants on a server that has none: made once, by whoever may, or asked for before anything is done."""

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import asyncpg
import pytest

from dispatcher.base.errors import TenantRoleMissing
from dispatcher.base.workspace import Workspace
from dispatcher.config.settings import Database as Settings
from dispatcher.db import tenants
from dispatcher.db.database import Database
from dispatcher.db.schema import migrator
from dispatcher.features.deliveries import store as deliveries
from dispatcher.features.deliveries.store import New
from tests.conformance.servers import another, dump, run
from tests.support.scene import Connection


@pytest.fixture
async def bare(connection: Connection) -> AsyncIterator[str]:
    """A server without any role of ours."""
    async with another(connection) as url:
        yield url


def _as(url: str, user: str, database: str) -> str:
    return f"postgresql://{user}:@/{database}?{urlsplit(url).query}"


async def _execute(url: str, *orders: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        for order in orders:
            await connection.execute(order)
    finally:
        await connection.close()


async def _written(url: str) -> int:
    """A delivery that is written as a request writes it."""
    database = Database(Settings(), url)
    await database.open()
    try:
        new = New(idempotency_key="one", channel="sms", recipient="+4917012345", template='{"body": "x"}')
        async with tenants.transaction(database, Workspace()) as inside:
            (written,) = await deliveries.insert(inside, [new])
        return written.id
    finally:
        await database.close()


async def test_databases_of_one_server_are_migrated_at_once(bare: str) -> None:
    names = [f"base_{number}" for number in range(6)]
    await _execute(bare, *(f"CREATE DATABASE {name}" for name in names))
    await asyncio.gather(*(migrator.migrate(_as(bare, "postgres", name)) for name in names))
    assert [await _written(_as(bare, "postgres", name)) for name in names] == [1] * len(names)


async def test_a_role_with_createrole_makes_the_tenant_role(bare: str) -> None:
    await _execute(bare, "CREATE ROLE app LOGIN CREATEROLE", "CREATE DATABASE base OWNER app")
    url = _as(bare, "app", "base")
    await migrator.migrate(url)
    assert await _written(url) == 1
    # The owner, which is no superuser, is not subject to any of it.
    owner = await asyncpg.connect(url)
    try:
        await owner.copy_records_to_table(
            "deliveries",
            schema_name="dispatcher",
            records=[("acme", "copied", "sms", "+4917012345", '{"body": "x"}')],
            columns=("tenant_id", "idempotency_key", "channel", "recipient", "template"),
        )
        assert await owner.fetchval("SELECT count(*) FROM dispatcher.delivery_life") == len(("one", "copied"))
    finally:
        await owner.close()


async def test_a_role_without_createrole_is_told_the_statements_and_changes_nothing(bare: str) -> None:
    await _execute(bare, 'CREATE ROLE "an app" LOGIN', 'CREATE DATABASE base OWNER "an app"')
    url = _as(bare, "an%20app", "base")
    for orders in ("CREATE ROLE dispatcher_tenant NOLOGIN", 'GRANT dispatcher_tenant TO "an app"'):
        with pytest.raises(TenantRoleMissing) as told:
            await migrator.migrate(url)
        said = str(told.value).partition("administrator run ")[2]
        assert said.startswith(orders)
        connection = await asyncpg.connect(url)
        try:
            assert await connection.fetchval("SELECT to_regnamespace('dispatcher')") is None
        finally:
            await connection.close()
        # One after the other: the second time only what is still missing is asked for.
        await _execute(bare, orders)
    await migrator.migrate(url)
    assert await _written(url) == 1


async def test_a_server_restored_without_the_role_refuses_requests(
    bare: str, url: str, connection: Connection, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("dumps") / "dump"
    await dump(connection, url, file)
    await _execute(bare, "CREATE DATABASE early", "CREATE DATABASE late")
    early, late = (_as(bare, "postgres", name) for name in ("early", "late"))

    async def restored(into: str) -> int:
        return (await run(connection, "pg_restore", "-d", into, str(file))).returncode

    async def required(of: str) -> None:
        there = await asyncpg.connect(of)
        try:
            await tenants.require(there)
        finally:
            await there.close()

    assert await restored(early) != 0
    with pytest.raises(TenantRoleMissing, match="CREATE ROLE dispatcher_tenant"):
        await required(early)
    await _execute(bare, "CREATE ROLE dispatcher_tenant NOLOGIN")
    with pytest.raises(TenantRoleMissing, match="restore"):
        await required(early)
    assert await restored(late) == 0
    await required(late)
    assert await _written(late) == 1
