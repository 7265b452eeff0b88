"""What requests of a large workspace read, by plans that were made for a small one, or before anybody had counted."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from dispatcher.db.database import SESSION
from dispatcher.db.statements import statements
from tests.support.databases import TEMPLATE, new_database
from tests.support.explained import literal
from tests.support.scene import Connection

MANY = 4_000
ROWS_MAX = 500
LAST = 2**62
SOON = "2100-01-01Z"
LONG_AGO = "2000-01-01Z"
WHOSE = ("default", "large")
FILL = """
    INSERT INTO dispatcher.deliveries (tenant_id, workspace_id, idempotency_key, channel, recipient, template,
                                       scheduled_for)
    SELECT 'default', $1, 'k' || n, 'sms', '+49' || n, '{"body": "x"}', now() + interval '1 day'
      FROM generate_series(1, $2::int) AS n;
"""
HOLD = """
    UPDATE dispatcher.delivery_state
       SET held = true, held_at = now(), ready = false, marked = true, token = 0, error = 'unknown: x'
     WHERE id IN (SELECT min(id) FROM dispatcher.deliveries GROUP BY workspace_id)
"""
ACT = """
    INSERT INTO dispatcher.operator_actions (delivery_id, actor, action, status_before, reason)
    SELECT id, 'ann', 'move', 'queued', 'x' FROM dispatcher.deliveries
"""
MEET = """
    INSERT INTO dispatcher.contacts (tenant_id, workspace_id, key, status, updated_by)
    SELECT 'default', $1, 'c' || n, 'active', 'ann' FROM generate_series(1, $2::int) AS n
"""
REACH = """
    INSERT INTO dispatcher.contact_addresses (contact_id, position, tenant_id, workspace_id, kind, address, written)
    SELECT id, 0, tenant_id, workspace_id, 'email', key || '@example.org', key || '@example.org'
      FROM dispatcher.contacts
"""
GIVE = """
    INSERT INTO dispatcher.api_keys (tenant_id, workspace_id, name, role, revoked_at)
    SELECT 'default', $1, 'ann', 'systemAdmin', now() FROM generate_series(1, $2::int) AS n
"""
TAKE = """
    INSERT INTO dispatcher.api_key_actions (key_id, actor, action, reason)
    SELECT id, 'ann', 'revoke', 'x' FROM dispatcher.api_keys
"""

ASKED: dict[str, tuple[str, str, tuple[object, ...]]] = {
    "deliveries": ("dispatcher.features.deliveries.store", "list", (LAST, None, None, WHOSE[0], 51, WHOSE[1], None)),
    "delivery_of_key": (
        "dispatcher.features.deliveries.store",
        "list_of_key",
        (LAST, None, None, WHOSE[0], 51, WHOSE[1], "k7"),
    ),
    "delivery": ("dispatcher.features.deliveries.store", "show", (7,)),
    "search_to": ("dispatcher.features.deliveries.search", "newest_to", (LAST, 51, *WHOSE, "+497")),
    "search_matching": (
        "dispatcher.features.deliveries.search",
        "matching",
        ([7, 8], 51, None, None, None, None, "x", None, None),
    ),
    "overview_held": ("dispatcher.features.overview.store", "held", (*WHOSE, 10_000)),
    "overview_throughput": ("dispatcher.features.overview.store", "throughput", (*WHOSE, 3600.0)),
    "held": ("dispatcher.features.held.store", "list", (*WHOSE, 51, None, None, None, None, None)),
    "held_page": ("dispatcher.features.held.store", "list", (*WHOSE, 51, None, LONG_AGO, 0, SOON, None)),
    "held_state": ("dispatcher.features.held.store", "state", ([7],)),
    "contact": ("dispatcher.features.contacts.store", "show", (*WHOSE, "c7")),
    "timeline": ("dispatcher.features.persons.store", "deliveries", (*WHOSE, ["+497"], SOON, LAST, 51)),
    "export": ("dispatcher.features.persons.store", "written", (*WHOSE, ["+497"], 0, 50, 1_000_000)),
    "audit": (
        "dispatcher.features.audit.store",
        "list",
        (*WHOSE, "delivery", None, LONG_AGO, SOON, 100, LAST, LAST, 51),
    ),
}


async def _ask(session: Connection, workspace: str, statement: str) -> list[asyncpg.Record]:
    """What a request of a workspace is answered."""
    async with session.transaction():
        await session.execute(
            f"""SET LOCAL ROLE dispatcher_tenant; SET LOCAL dispatcher.tenant = 'default';
                SET LOCAL dispatcher.workspace = '{workspace}'; SET LOCAL plan_cache_mode = force_generic_plan"""
        )
        return await session.fetch(statement)


@pytest.fixture(scope="module", params=["never_counted", "counted"])
async def filled(template: str, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """A database with a large workspace and a small one."""
    async with new_database(template, TEMPLATE) as url:
        connection = await asyncpg.connect(url, server_settings=SESSION)
        for table in ("deliveries", "delivery_state", "operator_actions", "contacts", "contact_addresses", "api_keys"):
            await connection.execute(f"ALTER TABLE dispatcher.{table} SET (autovacuum_enabled = off)")
        for workspace, count in (("small", 1), (WHOSE[1], MANY)):
            for statement in (FILL, MEET, GIVE):
                await connection.execute(statement, workspace, count)
        for statement in (HOLD, ACT, REACH, TAKE):
            await connection.execute(statement)
        if request.param == "counted":
            await connection.execute("ANALYZE")
        await connection.close()
        yield url


@pytest.fixture
async def session(filled: str) -> AsyncIterator[Connection]:
    """A session with the program's own settings."""
    connection = await asyncpg.connect(filled, server_settings=SESSION)
    yield connection
    await connection.close()


@pytest.mark.parametrize("name", ASKED)
async def test_a_plan_that_a_small_workspace_has_begun_reads_no_large_one(session: Connection, name: str) -> None:
    file, statement, arguments = ASKED[name]
    query = statements(file)[statement]
    types = ", ".join(kind.name for kind in (await session.prepare(query)).get_parameters())
    await session.execute(f"PREPARE asked ({types}) AS {query}")
    values = ", ".join(map(literal, arguments))
    await _ask(session, "small", f"EXECUTE asked ({values})".replace(WHOSE[1], "small"))
    told = await _ask(
        session, WHOSE[1], f"EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) EXECUTE asked ({values})"
    )
    plan = "\n".join(line[0] for line in told)
    rows = [
        int(line.split("rows=")[1].split()[0].split(".")[0]) for line in plan.splitlines() if "actual rows=" in line
    ]
    passed = [int(line.split(": ")[1]) for line in plan.splitlines() if "Rows Removed by" in line]
    loops = [int(line.split("loops=")[1].split(")")[0]) for line in plan.splitlines() if "loops=" in line]
    assert max([*rows, *passed, *loops]) <= ROWS_MAX, plan


async def test_the_audit_of_a_key_uses_the_index(session: Connection) -> None:
    # All keys of that name are read, but not all that was ever done for each.
    query = statements("dispatcher.features.keys.store")["actions"]
    told = await _ask(
        session,
        WHOSE[1],
        "EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) "
        + query.replace("$1", "'default'")
        .replace("$2", f"'{WHOSE[1]}'")
        .replace("$3", "'ann'")
        .replace("$4", "51")
        .replace("$5", str(LAST)),
    )
    plan = "\n".join(line[0] for line in told)
    assert "api_key_actions_by_key" in plan, plan
    assert "BitmapAnd" not in plan, plan
