"""Placements in the database: who is at home, who is refused, and which ids are given out."""

import json
from collections.abc import AsyncIterator

import asyncpg
import pytest

from dispatcher.db.cells import TenantElsewhere, TenantMoving
from tests.db.test_owners_functions import CALLS, HOME, call
from tests.support.home import Home, furnish
from tests.support.scene import Connection

# Rows of these only record what becomes of work that was taken, or are an operator's in any cell.
RECORDS = {
    "api_answers",
    "campaign_actions",
    "cap_actions",
    "captured_messages",
    "erased_suppressions",
    "erasures",
    "pauses",
    "quiet_hours_actions",
    "quiet_hours_ended",
    "rule_actions",
    "suppression_log",
    "suppression_work",
    "suppressions",
    "tenant_moves",
    "tenant_placements",
    "throughput",
    "webhook_events",
}
SEND = """INSERT INTO dispatcher.deliveries (tenant_id, idempotency_key, channel, recipient, template)
          VALUES ($1, $2, 'sms', '+4917012345', '{"body": "x"}')"""
NUMBER = 2
AWAY = (TenantElsewhere, TenantMoving)
FIRST_ID = NUMBER * 2**43


async def place(connection: Connection, tenant: str, state: str, version: int = 1, cell: int = 3) -> bool:
    """Place a tenant."""
    cell = NUMBER if state in ("here", "arriving") else cell
    placed: bool = await connection.fetchval(
        "SELECT dispatcher.place_tenant($1, $2::smallint, $3, $4, $5)", tenant, cell, "https://three", state, version
    )
    return placed


@pytest.fixture(scope="module")
async def furnished(shared_url: str) -> AsyncIterator[tuple[Connection, Home]]:
    """Something of everything in the default workspace of a cell."""
    connection = await asyncpg.connect(shared_url)
    try:
        home = await furnish(connection)
        await connection.execute("SELECT dispatcher.join_cells($1::smallint)", NUMBER)
        yield connection, home
    finally:
        await connection.close()


@pytest.fixture
async def cell(furnished: tuple[Connection, Home]) -> AsyncIterator[Connection]:
    """The cell, for one test: what that does is taken back."""
    transaction = furnished[0].transaction()
    await transaction.start()
    yield furnished[0]
    await transaction.rollback()


async def _tables(connection: Connection) -> dict[str, bool]:
    """The tables that say of each row whose it is, and whether they refuse those of tenants that are elsewhere."""
    rows = await connection.fetch(
        """SELECT c.relname, EXISTS (SELECT FROM pg_trigger t
                                      WHERE t.tgrelid = c.oid AND t.tgname = 'stay_in_cell') AS refuses
             FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'
            WHERE c.relkind = 'r' AND c.relnamespace = 'dispatcher'::regnamespace"""
    )
    return {row["relname"]: row["refuses"] for row in rows}


async def test_every_table_of_tenants_refuses_foreign_rows_or_is_a_record(cell: Connection) -> None:
    tables = await _tables(cell)
    assert {name for name, refuses in tables.items() if not refuses} == RECORDS


@pytest.mark.parametrize("name", CALLS)
async def test_every_function_of_applications_refuses_a_tenant_that_is_elsewhere(
    cell: Connection, furnished: tuple[Connection, Home], name: str
) -> None:
    await place(cell, "default", "elsewhere")
    with pytest.raises(AWAY) as refused:
        await cell.execute(call(name, furnished[1], HOME[0]))
    assert refused.value.sqlstate == "57T02"
    (fault,) = json.loads(str(refused.value.detail))
    assert (fault["tenant_id"], fault["state"], fault["cell"], fault["url"]) == (
        "default",
        "elsewhere",
        3,
        "https://three",
    )


@pytest.mark.parametrize(("state", "code"), [("leaving", "57T01"), ("arriving", "57T01"), ("elsewhere", "57T02")])
async def test_plain_rows_of_a_tenant_that_is_not_here_are_refused(cell: Connection, state: str, code: str) -> None:
    await place(cell, "acme", state)
    await cell.execute(SEND, "other", "1")
    with pytest.raises(AWAY) as refused:
        async with cell.transaction():
            await cell.execute(SEND, "acme", "1")
    assert refused.value.sqlstate == code
    columns = ["tenant_id", "idempotency_key", "channel", "recipient", "template"]
    row = ("acme", "2", "sms", "+4917012345", '{"body": "x"}')
    with pytest.raises(AWAY):
        async with cell.transaction():
            await cell.copy_records_to_table("deliveries", schema_name="dispatcher", records=[row], columns=columns)
    with pytest.raises(AWAY):
        async with cell.transaction():
            await cell.execute(SEND.replace("dispatcher.deliveries", "dispatcher.channel_outbox"), "acme", "3")


async def test_what_waits_of_a_tenant_that_is_elsewhere_is_not_cancelled_through_the_view(cell: Connection) -> None:
    await cell.execute(SEND, "acme", "1")
    await place(cell, "acme", "elsewhere")
    with pytest.raises(AWAY):
        await cell.execute("UPDATE dispatcher.channel_outbox SET status = 'skipped' WHERE tenant_id = 'acme'")


async def test_a_cell_that_takes_only_listed_tenants_refuses_all_others(cell: Connection) -> None:
    await cell.execute("UPDATE dispatcher.own_cell SET takes_unlisted = false")
    await place(cell, "acme", "here")
    await cell.execute(SEND, "acme", "1")
    with pytest.raises(TenantElsewhere, match="has no place in cell 2"):
        await cell.execute(SEND, "other", "1")


async def test_a_copy_is_let_through_for_the_owner_and_for_no_request(cell: Connection) -> None:
    await place(cell, "acme", "arriving")
    await cell.execute("SET LOCAL dispatcher.copying = 'yes'")
    await cell.execute(SEND, "acme", "1")
    await cell.execute("SET LOCAL dispatcher.tenant = 'acme'; SET LOCAL dispatcher.workspace = 'default'")
    await cell.execute("SET LOCAL ROLE dispatcher_tenant")
    with pytest.raises(AWAY):
        await cell.execute(SEND, "acme", "2")


async def test_a_stale_directory_is_refused_and_the_same_one_changes_nothing(cell: Connection) -> None:
    assert await place(cell, "acme", "elsewhere", version=7)
    assert not await place(cell, "acme", "elsewhere", version=7)
    for version, state in ((7, "here"), (6, "here")):
        with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="stale"):
            async with cell.transaction():
                await place(cell, "acme", state, version)
    assert await place(cell, "acme", "here", version=8)


async def test_what_is_here_is_in_this_cell_and_what_leaves_goes_to_another(cell: Connection) -> None:
    for state, number in (("here", 3), ("arriving", 3), ("leaving", NUMBER), ("elsewhere", NUMBER)):
        with pytest.raises(asyncpg.DataError, match="cannot be placed"):
            async with cell.transaction():
                await cell.execute("SELECT dispatcher.place_tenant('acme', $1::smallint, '', $2, 1)", number, state)


async def test_a_tenant_stands_still_from_its_leaving_until_it_is_here_again(cell: Connection) -> None:
    await place(cell, "acme", "leaving", 1)
    await place(cell, "acme", "elsewhere", 2)
    open_ones = "SELECT count(*) FROM dispatcher.pauses WHERE scope = 'moved' AND name = 'acme' AND ended_at IS NULL"
    assert await cell.fetchval(open_ones) == 1
    await place(cell, "acme", "here", 3)
    assert await cell.fetchval(open_ones) == 0
    await cell.execute(SEND, "acme", "1")


async def test_the_ids_of_a_cell_are_in_its_range(cell: Connection) -> None:
    await cell.execute(SEND, "acme", "1")
    ranges = await cell.fetch(
        "SELECT last_value FROM pg_sequences WHERE schemaname = 'dispatcher' AND data_type::text = 'bigint'"
    )
    assert ranges
    assert all(FIRST_ID <= row["last_value"] < FIRST_ID + 1_000 for row in ranges)
    smaller = "SELECT count(*) FROM pg_sequences WHERE schemaname = 'dispatcher' AND data_type::text <> 'bigint'"
    assert not await cell.fetchval(smaller)
    # Any program reads them exactly, also one whose numbers are floats.
    assert (1023 + 1) * 2**43 <= 2**53


async def test_a_cell_keeps_its_number_and_its_ids(cell: Connection) -> None:
    await cell.execute(SEND, "acme", "1")
    before = await cell.fetchval("SELECT max(id) FROM dispatcher.deliveries")
    assert not await cell.fetchval("SELECT dispatcher.join_cells($1::smallint)", NUMBER)
    await cell.execute(SEND, "acme", "2")
    assert await cell.fetchval("SELECT max(id) FROM dispatcher.deliveries") == before + 1
    for other in (0, 1, 3):
        words = f"cell.number is {other}, and this database is cell 2"
        with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match=words):
            async with cell.transaction():
                await cell.execute("SELECT dispatcher.join_cells($1::smallint)", other)


async def test_ids_beyond_the_range_keep_a_database_from_becoming_a_cell(connection: Connection) -> None:
    await connection.execute("SELECT setval('dispatcher.deliveries_id_seq', $1)", 5 * 2**43)
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="deliveries_id_seq is at"):
        await connection.execute("SELECT dispatcher.join_cells(4::smallint)")


async def test_nobody_is_placed_where_there_are_no_cells(connection: Connection) -> None:
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="in no cell"):
        await connection.execute("SELECT dispatcher.place_tenant('acme', 2::smallint, '', 'elsewhere', 1)")


async def test_operators_have_keys_in_a_cell_that_does_not_list_them_and_no_tenant_that_is_elsewhere(
    cell: Connection,
) -> None:
    make = "SELECT dispatcher.create_api_key($1, 'default', 'k', 'systemAdmin', NULL, $2, sha256('x'), 'ann', 'why')"
    await cell.execute("UPDATE dispatcher.own_cell SET takes_unlisted = false")
    assert await cell.fetchval(make, "operators", "dsp_0123456789AB")
    await place(cell, "acme", "elsewhere")
    with pytest.raises(TenantElsewhere):
        await cell.fetchval(make, "acme", "dsp_0123456789AC")


async def test_a_cell_that_has_unlisted_tenants_goes_on_to_take_them(cell: Connection) -> None:
    """Another cell would take them up, and send what this one has sent."""
    take = "SELECT dispatcher.take_unlisted($1)"
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="tenant default has rows in"):
        async with cell.transaction():
            await cell.execute(take, False)
    await place(cell, "default", "here")
    await cell.execute(take, False)
    await cell.execute(take, True)
    await cell.execute(SEND, "other", "1")
