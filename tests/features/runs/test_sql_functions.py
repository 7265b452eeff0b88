"""The SQL functions that show an application its deliveries and cancel them, in its own workspace only."""

import asyncpg
import pytest

from tests.support.flows import at_node, faults, ordered, put, trigger
from tests.support.scene import Connection

ENQUEUE = """SELECT delivery_id FROM dispatcher.enqueue_delivery(
                 'sms', '+4917012345', $1, '{"body": "x"}', lane => 'bulk', tenant_id => $2, workspace_id => $3)"""
STATUS = "SELECT id, life FROM dispatcher.delivery_status($1, $2, $3, $4)"
CANCEL = "SELECT dispatcher.cancel_delivery($1, $2, 'too many', $3, $4)"


async def test_a_run_is_told_with_what_it_waits_for(connection: Connection) -> None:
    await put(connection)
    run = (await trigger(connection, {"a": 1}, "k"))["execution_id"]
    await at_node(connection, run)
    held, _ = await ordered(connection, run, 2)
    await connection.execute(
        """UPDATE dispatcher.delivery_state
              SET held = true, marked = true, attempt = 1, token = 1, held_at = now(), ready = false WHERE id = $1""",
        held,
    )
    row = await connection.fetchrow("SELECT * FROM dispatcher.run_status($1)", run)
    assert row is not None
    assert (row["execution_id"], row["status"], row["current_steps"], row["idempotency_key"]) == (
        run,
        "running",
        ["mail"],
        "k",
    )
    assert (row["held"], row["deliveries_total"], row["input"], row["context"]) == (1, 2, '{"a": 1}', '{"a": 1}')
    for other in ((run, "acme", "default"), (run, "default", "other"), (run + 1, "default", "default")):
        assert await connection.fetch("SELECT * FROM dispatcher.run_status($1, $2, $3)", *other) == []


async def test_a_delivery_is_found_by_id_or_key_in_its_workspace_only(connection: Connection) -> None:
    mine = await connection.fetchval(ENQUEUE, "k", "default", "default")
    theirs = await connection.fetchval(ENQUEUE, "k", "acme", "shop")

    async def found(*asked: object) -> list[int]:
        return [row["id"] for row in await connection.fetch(STATUS, *asked)]

    assert await found(mine, None, "default", "default") == [mine]
    assert await found(None, "k", "default", "default") == [mine]
    assert await found(None, "k", "acme", "shop") == [theirs]
    assert await found(mine, "k", None, None) == [mine]
    # In the workspace beside it, and in one of its name of another tenant.
    beside = [
        (*named, *place) for named in ((mine, None), (None, "k")) for place in (("default", "b"), ("b", "default"))
    ]
    others = (mine, "other", None, None), (theirs, None, "default", "default"), (None, "j", None, None)
    for nothing in (*beside, *others):
        assert await found(*nothing) == []
        assert await connection.fetchval(CANCEL, *nothing) == "unknown"
    with pytest.raises(asyncpg.InvalidParameterValueError) as refused:
        await found(None, None, None, None)
    assert list(faults(refused.value)) == ["$.delivery_id"]


async def test_a_delivery_is_cancelled_once_with_its_actor(connection: Connection) -> None:
    mine = await connection.fetchval(ENQUEUE, "k", "default", "default")
    assert await connection.fetchval(CANCEL, None, "k", None, None) == "cancelled"
    assert await connection.fetchval(CANCEL, mine, None, None, None) == "skipped"
    stored = await connection.fetchrow("SELECT actor, action, reason FROM dispatcher.operator_actions")
    assert stored is not None
    assert tuple(stored) == (await connection.fetchval("SELECT session_user"), "cancel", "too many")
