"""Roles that may insert into the view `channel_outbox`, and may do nothing else."""

from collections.abc import AsyncIterator
from uuid import uuid4

import asyncpg
import pytest

from dispatcher.base.workspace import Workspace
from dispatcher.db import tenants
from dispatcher.db.database import Database
from tests.support.scene import Connection, Scene

COLUMNS = ("idempotency_key", "channel", "recipient", "template")
INSERT = """INSERT INTO dispatcher.channel_outbox (idempotency_key, channel, recipient, template)
            VALUES ($1, 'sms', '+49', '{"body": "x"}')"""


@pytest.fixture
async def writer(url: str, connection: Connection) -> AsyncIterator[Connection]:
    """An application with the one right. Roles are of the whole server."""
    name = f"writer_{uuid4().hex[:12]}"
    await connection.execute(
        f"CREATE ROLE {name} LOGIN; GRANT USAGE ON SCHEMA dispatcher TO {name};"
        f" GRANT INSERT ON dispatcher.channel_outbox TO {name}"
    )
    writer = await asyncpg.connect(url, user=name)
    try:
        yield writer
    finally:
        await writer.close()
        await connection.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


async def test_to_insert_into_the_view_is_enough(writer: Connection, scene: Scene) -> None:
    await writer.execute(INSERT, "one")
    await writer.executemany(INSERT, [("two",), ("three",)])
    await writer.copy_records_to_table(
        "channel_outbox",
        schema_name="dispatcher",
        columns=COLUMNS,
        records=[(f"copied-{n}", "sms", "+4917012345", '{"body": "x"}') for n in range(3)],
    )
    await writer.execute(
        """INSERT INTO dispatcher.channel_outbox (idempotency_key, channel, recipient, template, run_at, status)
           VALUES ('later', 'sms', '+49', '{"body": "x"}', '2040-01-01', 'queued'),
                  ('never', 'sms', '+49', '{"body": "x"}', NULL, 'skipped')"""
    )
    assert sorted(item.idempotency_key for item in await scene.claim(10)) == [
        "copied-0",
        "copied-1",
        "copied-2",
        "one",
        "three",
        "two",
    ]
    lives = "SELECT idempotency_key, life FROM dispatcher.delivery_life WHERE life <> 'claimed'"
    assert dict(await scene.database.fetch(lives)) == {"later": "pending", "never": "skipped"}


async def test_inserts_of_the_writer_role_obey_the_same_constraints(writer: Connection) -> None:
    await writer.execute(INSERT, "one")
    with pytest.raises(asyncpg.UniqueViolationError):
        await writer.execute(INSERT, "one")
    for column, value in (("created_at", "2020-01-01"), ("status", "sent"), ("max_attempts", 0), ("lane", 7)):
        with pytest.raises(asyncpg.CheckViolationError):
            await writer.execute(
                f"""INSERT INTO dispatcher.channel_outbox (idempotency_key, channel, recipient, template, {column})
                    VALUES ('two', 'sms', '+49', '{{"body": "x"}}', '{value}')"""
            )


async def test_it_has_no_other_right(writer: Connection) -> None:
    await writer.execute(INSERT, "one")
    for statement in (
        INSERT.replace("$1", "'two'") + " RETURNING id",
        "SELECT FROM dispatcher.channel_outbox",
        "UPDATE dispatcher.channel_outbox SET status = 'skipped'",
        "INSERT INTO dispatcher.deliveries DEFAULT VALUES",
        "SELECT FROM dispatcher.delivery_state",
        "SELECT nextval('dispatcher.deliveries_id_seq')",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await writer.execute(statement)


async def test_with_select_on_the_view_the_row_is_answered(writer: Connection, connection: Connection) -> None:
    name = await writer.fetchval("SELECT current_user")
    await connection.execute(f"GRANT SELECT (id, status) ON dispatcher.channel_outbox TO {name}")
    row = await writer.fetchrow(INSERT + " RETURNING id, status", "one")
    assert row is not None
    assert tuple(row) == (await connection.fetchval("SELECT id FROM dispatcher.deliveries"), "queued")


async def test_on_conflict_needs_the_right_to_insert_into_the_table(writer: Connection, connection: Connection) -> None:
    """It works on no view."""
    name = await writer.fetchval("SELECT current_user")
    await connection.execute(f"GRANT INSERT ON dispatcher.deliveries TO {name}")
    insert = INSERT.replace("channel_outbox", "deliveries") + " ON CONFLICT DO NOTHING"
    assert [await writer.execute(insert, "one") for _ in range(2)] == ["INSERT 0 1", "INSERT 0 0"]
    with pytest.raises(asyncpg.PostgresError):
        await writer.execute(INSERT + " ON CONFLICT DO NOTHING", "one")


async def test_a_request_that_could_insert_into_it_stayed_in_its_workspace(
    connection: Connection, database: Database
) -> None:
    await connection.execute("GRANT INSERT ON dispatcher.channel_outbox TO dispatcher_tenant")
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="another workspace"):
        async with tenants.transaction(database, Workspace("acme", "default")) as inside:
            await inside.fetch(INSERT, "one")
    async with tenants.transaction(database, Workspace()) as inside:
        await inside.fetch(INSERT, "one")
