"""Rivals of an erasure: a key that is inserted while the row that has it is being erased is a duplicate."""

import asyncio

import asyncpg
import pytest

from dispatcher.engine.rules.life import Succeeded
from tests.support import flows
from tests.support.scene import Connection, Scene
from tests.support.waits import until_waits

ARM = "SELECT dispatcher.keep_erased_keys()"
ERASE = "SELECT dispatcher.erase_deliveries(ARRAY[$1::bigint], false)"
INSERT = """
    INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template)
    VALUES ($1, 'sms', '+4917055555', '{"body": "again"}') ON CONFLICT DO NOTHING RETURNING id
"""
KEYS = "SELECT count(*) FROM dispatcher.deliveries WHERE idempotency_key = $1"


async def _sent(scene: Scene, connection: Connection) -> tuple[int, str]:
    """A delivery that can be erased, and its key; where somebody was erased before."""
    (item,) = await scene.marked(1)
    await scene.flush((item, Succeeded("m-1")))
    await connection.execute(ARM)
    return item.id, await scene.value("SELECT idempotency_key FROM dispatcher.deliveries WHERE id = $1", item.id)


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
async def test_an_insert_of_a_key_under_erasure_waits_and_is_a_duplicate(
    scene: Scene, connection: Connection, rival: Connection, end: str
) -> None:
    number, key = await _sent(scene, connection)
    await connection.execute("BEGIN")
    await connection.execute(ERASE, number)
    inserting = asyncio.create_task(rival.fetch(INSERT, key))
    try:
        await until_waits(connection, rival)
    finally:
        await connection.execute(end)
    assert await inserting == []
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.deliveries") == 1
    assert await connection.fetchval(KEYS, key) == (0 if end == "COMMIT" else 1)


async def test_an_erasure_waits_for_transactions_that_read_a_key(
    scene: Scene, connection: Connection, rival: Connection
) -> None:
    number, key = await _sent(scene, connection)
    await rival.execute("BEGIN")
    assert await rival.fetch(INSERT, key) == []
    erasing = asyncio.create_task(connection.fetchval(ERASE, number))
    await until_waits(rival, connection)
    await rival.execute("COMMIT")
    assert await erasing == 1
    assert await rival.fetch(INSERT, key) == []


async def test_a_transaction_with_an_old_snapshot_is_refused(
    scene: Scene, connection: Connection, rival: Connection
) -> None:
    number, key = await _sent(scene, connection)
    await rival.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    assert await rival.fetchval(KEYS, key) == 1
    await connection.execute(ERASE, number)
    with pytest.raises(asyncpg.SerializationError):
        await rival.fetch(INSERT, key)
    await rival.execute("ROLLBACK")
    assert await rival.fetch(INSERT, key) == []


async def test_a_run_whose_key_is_being_erased_is_met_as_well(
    scene: Scene, connection: Connection, rival: Connection
) -> None:
    await connection.execute(ARM)
    await flows.put(connection)
    run = (await flows.trigger(connection, {}, "signup"))["execution_id"]
    await connection.execute("SELECT dispatcher.cancel_run($1)", run)
    again = """
        INSERT INTO dispatcher.runs
               (workflow_id, version_id, tenant_id, workspace_id, workflow, idempotency_key, triggered_by, input)
        SELECT workflow_id, version_id, tenant_id, workspace_id, workflow, 'signup', 'me', '{}'
          FROM dispatcher.runs WHERE id = $1
        ON CONFLICT DO NOTHING RETURNING id
    """
    await connection.execute("BEGIN")
    assert await connection.fetchval("SELECT dispatcher.erase_runs(ARRAY[$1::bigint])", run) == 1
    inserting = asyncio.create_task(rival.fetch(again, run))
    try:
        await until_waits(connection, rival)
    finally:
        await connection.execute("COMMIT")
    assert await inserting == []
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.runs") == 1
