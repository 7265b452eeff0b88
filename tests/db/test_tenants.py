"""Tenants: what a transaction sees and does that is bound to one workspace, and what everybody else does as before."""

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from uuid import uuid4

import asyncpg
import pytest

from dispatcher.base.workspace import Workspace
from dispatcher.config.settings import Database as Settings
from dispatcher.db import tenants
from dispatcher.db.database import Database
from dispatcher.features.deliveries import store as deliveries
from dispatcher.features.deliveries.store import New, Written
from dispatcher.features.deliveries.writing import write
from dispatcher.features.workflows import store as workflows
from tests.support import flows
from tests.support.scene import Connection

HOME = Workspace()
ACME = Workspace("acme", "default")
OTHER = Workspace("default", "other")
BOUND = """
    SELECT current_user::text, current_setting('dispatcher.tenant', true), current_setting('dispatcher.workspace', true)
"""


def _new(key: str, workspace: Workspace = HOME, **fields: str) -> New:
    given = {"channel": "sms", "recipient": "+4917012345", "template": '{"body": "x"}'} | fields
    return New(idempotency_key=key, tenant_id=workspace.tenant_id, workspace_id=workspace.workspace_id, **given)  # type: ignore[arg-type]  # texts all


@pytest.fixture
async def clerk(url: str, connection: Connection) -> AsyncIterator[Connection]:
    """An application that owns nothing and was granted what it needs. Roles are of the whole server."""
    name = f"clerk_{uuid4().hex[:12]}"
    await connection.execute(
        f"""CREATE ROLE {name} LOGIN;
            GRANT USAGE ON SCHEMA dispatcher TO {name};
            GRANT USAGE ON SEQUENCE dispatcher.deliveries_id_seq TO {name};
            GRANT SELECT, INSERT ON dispatcher.deliveries, dispatcher.delivery_state, dispatcher.channel_outbox
               TO {name}"""
    )
    application = await asyncpg.connect(url, user=name)
    try:
        yield application
    finally:
        await application.close()


async def test_everything_that_a_request_may_touch_is_isolated(connection: Connection) -> None:
    """A table, column or view on which the role has a right, without a policy of its own, would be open to all."""
    open_to_all = r"""
        SELECT c.relname FROM pg_class c
         WHERE c.relnamespace = 'dispatcher'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
           AND (has_table_privilege('dispatcher_tenant', c.oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER')
                OR has_any_column_privilege('dispatcher_tenant', c.oid, 'SELECT, INSERT, UPDATE'))
           AND NOT CASE WHEN c.relkind IN ('r', 'p') THEN c.relrowsecurity AND EXISTS (
                            SELECT FROM pg_policy p
                             WHERE p.polrelid = c.oid AND NOT p.polpermissive AND p.polcmd = '*'
                               AND 'dispatcher_tenant'::regrole = ANY (p.polroles)
                               -- By who asks, or by a row that is isolated itself.
                               AND pg_get_expr(p.polqual, c.oid) ~ 'dispatcher\.tenant''|FROM dispatcher\.\w+ p\s')
                        ELSE 'security_invoker=true' = ANY (c.reloptions) END
    """
    found = [row["relname"] for row in await connection.fetch(open_to_all)]
    assert not found, f"CALL dispatcher.isolate for these in a migration, or grant nothing: {found}"


async def test_functions_granted_to_requests_run_to_their_end(connection: Connection) -> None:
    """A function that runs with the rights of who calls it needs them for what it calls in turn."""
    broken = r"""
        SELECT a.proname || ' calls ' || b.proname FROM pg_proc a
          JOIN pg_proc b ON b.pronamespace = a.pronamespace AND a.prosrc ~ ('dispatcher\.' || b.proname || '\(')
         WHERE a.pronamespace = 'dispatcher'::regnamespace AND NOT a.prosecdef
           AND EXISTS (SELECT FROM aclexplode(a.proacl) g WHERE g.grantee = 'dispatcher_tenant'::regrole)
           AND NOT has_function_privilege('dispatcher_tenant', b.oid, 'EXECUTE')
    """
    assert [row[0] for row in await connection.fetch(broken)] == []


async def test_the_role_owns_nothing_and_cannot_log_in(connection: Connection) -> None:
    (role,) = await connection.fetch("SELECT * FROM pg_roles WHERE rolname = 'dispatcher_tenant'")
    assert not any(role[f"rol{name}"] for name in ("canlogin", "super", "createrole", "createdb", "bypassrls"))
    owned = "SELECT count(*) FROM pg_class WHERE relowner = 'dispatcher_tenant'::regrole"
    assert await connection.fetchval(owned) == 0


@pytest.mark.parametrize("name", ["plain", "it's", "back\\slash", "\\'; RESET ROLE; --", "é\u2028", "a" * 100])
async def test_a_transaction_is_bound_to_its_workspace_whatever_that_is_called(database: Database, name: str) -> None:
    async with tenants.transaction(database, Workspace(name, f"of {name}")) as inside:
        assert list((await inside.fetch(BOUND))[0]) == [tenants.ROLE, name, f"of {name}"]
    (afterwards,) = await database.fetch(BOUND)
    assert afterwards[0] != tenants.ROLE
    assert list(afterwards[1:]) == ["", ""]


async def test_with_other_rules_for_texts_it_is_bound_as_well(url: str) -> None:
    database = Database(Settings(), url, {"standard_conforming_strings": "off", "backslash_quote": "on"})
    await database.open()
    try:
        async with tenants.transaction(database, Workspace("\\'; RESET ROLE; --", "x")) as inside:
            assert list((await inside.fetch(BOUND))[0])[:2] == [tenants.ROLE, "\\'; RESET ROLE; --"]
    finally:
        await database.close()


async def test_a_connection_without_a_workspace_sees_nothing(connection: Connection, database: Database) -> None:
    await deliveries.insert(database, [_new("one"), _new("two", ACME)])
    for bound in ("", "SET LOCAL dispatcher.tenant = 'default'", "SET LOCAL dispatcher.workspace = 'default'"):
        async with connection.transaction():
            await connection.execute(f"SET LOCAL ROLE dispatcher_tenant; {bound}")
            assert await connection.fetchval("SELECT count(*) FROM dispatcher.deliveries") == 0
            assert await connection.fetchval("SELECT count(*) FROM dispatcher.delivery_state") == 0


async def test_nothing_is_written_for_another_workspace(database: Database) -> None:
    plan = workflows.New({}, flows.plan())
    for foreign in (ACME, OTHER):
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
            async with tenants.transaction(database, HOME) as inside:
                await deliveries.insert(inside, [_new("one", foreign)])
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
            async with tenants.transaction(database, HOME) as inside:
                await workflows.put(inside, foreign, [plan], "ann", activate=True)
    assert await database.value("SELECT count(*) FROM dispatcher.deliveries") == 0


async def test_no_request_says_what_a_node_of_a_run_has_sent(connection: Connection, database: Database) -> None:
    """The end of such a delivery moves its run on, whoever's that is."""
    await flows.put(connection)
    run = (await flows.trigger(connection))["execution_id"]
    ordered = """INSERT INTO dispatcher.deliveries
                        (tenant_id, run_id, node, idempotency_key, channel, recipient, template)
                 VALUES ('acme', $1, 'mail', 'forged', 'sms', '+49', '{"body": "x"}')"""
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
        async with tenants.transaction(database, ACME) as inside:
            await inside.fetch(ordered, run)


@pytest.mark.parametrize(
    "relation", ["instances", "claims", "clusters", "delivery_life", "channel_outbox", "webhook_events"]
)
async def test_rows_without_a_workspace_are_not_visible(database: Database, relation: str) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match=relation):
        async with tenants.transaction(database, HOME) as inside:
            await inside.fetch(f"SELECT * FROM dispatcher.{relation}")


async def _fails(inside: tenants.Transaction) -> None:
    await deliveries.insert(inside, [_new("failing")])
    await inside.fetch("SELECT 1 / 0")


async def _survives(database: Database) -> None:
    """Go on after a failure as if nothing had been."""
    async with tenants.transaction(database, HOME) as inside:
        with suppress(asyncpg.DivisionByZeroError):
            await _fails(inside)


async def _attempts(inside: tenants.Transaction) -> None:
    async with inside.savepoint():
        await _fails(inside)


async def test_a_failed_statement_in_a_transaction_fails_the_request(database: Database) -> None:
    with pytest.raises(RuntimeError, match="nothing was done"):
        await _survives(database)
    assert await database.value("SELECT count(*) FROM dispatcher.deliveries") == 0


async def test_a_failed_attempt_rolls_back_alone(database: Database) -> None:
    async with tenants.transaction(database, HOME) as inside:
        await deliveries.insert(inside, [_new("one")])
        with pytest.raises(asyncpg.DivisionByZeroError):
            await _attempts(inside)
        await deliveries.insert(inside, [_new("two")])
    rows = await database.fetch("SELECT idempotency_key FROM dispatcher.deliveries ORDER BY 1")
    assert [row[0] for row in rows] == ["one", "two"]


async def test_a_delivery_refused_by_the_database_fails_alone_in_its_batch(database: Database) -> None:
    batch = [_new(f"key-{number}", recipient="bad\0one" if number == 3 else "+4917012345") for number in range(8)]
    async with tenants.transaction(database, HOME) as inside:
        answers = await write(inside, batch)
    assert [isinstance(answer, Written) for answer in answers] == [number != 3 for number in range(8)]
    assert await database.value("SELECT count(*) FROM dispatcher.deliveries") == len(batch) - 1


async def test_a_failure_gives_the_connection_back_as_it_was(database: Database) -> None:
    # More often than there are connections, so that each is used again.
    for _ in range(2 * Settings().pool_max):
        with pytest.raises(asyncpg.DivisionByZeroError):
            async with tenants.transaction(database, HOME) as inside:
                await _fails(inside)
        assert (await database.fetch(BOUND))[0][0] != tenants.ROLE


async def _copy(connection: Connection, table: str, keys: Sequence[str]) -> None:
    await connection.copy_records_to_table(
        table,
        schema_name="dispatcher",
        records=[(key, "sms", "+4917012345", '{"body": "x"}') for key in keys],
        columns=("idempotency_key", "channel", "recipient", "template"),
    )


async def test_applications_write_and_read_as_before_but_for_copy_into_the_table(
    connection: Connection, clerk: Connection
) -> None:
    await _copy(connection, "deliveries", ["of the owner"])
    await clerk.execute(
        "INSERT INTO dispatcher.deliveries (tenant_id, idempotency_key, channel, recipient, template)"
        """ VALUES ('acme', 'inserted', 'sms', '+49', '{"body": "x"}')"""
    )
    await _copy(clerk, "channel_outbox", ["copied"])
    with pytest.raises(asyncpg.FeatureNotSupportedError, match="COPY FROM not supported with row-level security"):
        await _copy(clerk, "deliveries", ["refused"])
    rows = await clerk.fetch(
        "SELECT idempotency_key FROM dispatcher.deliveries JOIN dispatcher.delivery_state USING (id)"
    )
    assert sorted(row[0] for row in rows) == ["copied", "inserted", "of the owner"]


async def test_a_table_that_comes_later_is_isolated_by_one_call(connection: Connection, database: Database) -> None:
    await connection.execute("""
        CREATE TABLE dispatcher.visitors (
            id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tenant_id text NOT NULL, workspace_id text NOT NULL);
        CREATE TABLE dispatcher.visits (visitor_id bigint NOT NULL, event text NOT NULL);
        CREATE TABLE dispatcher.houses (tenant_id text NOT NULL);
        CALL dispatcher.isolate('dispatcher.visitors');
        CALL dispatcher.isolate('dispatcher.visits', 'visitor_id', 'dispatcher.visitors');
        CALL dispatcher.isolate('dispatcher.houses');
        GRANT SELECT, INSERT ON dispatcher.visitors, dispatcher.visits, dispatcher.houses
            TO dispatcher_tenant;
        INSERT INTO dispatcher.visitors (tenant_id, workspace_id)
        VALUES ('default', 'default'), ('acme', 'default'), ('default', 'other');
        INSERT INTO dispatcher.visits SELECT id, 'seen' FROM dispatcher.visitors;
        INSERT INTO dispatcher.houses VALUES ('default'), ('acme');
    """)
    for workspace in (HOME, ACME, OTHER):
        async with tenants.transaction(database, workspace) as inside:
            (visitor,) = await inside.fetch("SELECT * FROM dispatcher.visitors")
            assert (visitor["tenant_id"], visitor["workspace_id"]) == (workspace.tenant_id, workspace.workspace_id)
            (visit,) = await inside.fetch("SELECT * FROM dispatcher.visits")
            assert visit["visitor_id"] == visitor["id"]
            assert [row[0] for row in await inside.fetch("SELECT * FROM dispatcher.houses")] == [workspace.tenant_id]
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
        async with tenants.transaction(database, ACME) as inside:
            await inside.fetch("INSERT INTO dispatcher.visits VALUES ($1, 'x')", 1)
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.visits") == len((HOME, ACME, OTHER))
