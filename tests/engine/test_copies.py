"""New deliveries and copies: a delivery is due where its own transaction created it, and held anywhere else."""

import asyncio
from pathlib import Path

import asyncpg
import pytest

from tests.support.scene import Connection, Scene
from tests.support.waits import until_blocked

COLUMNS = "idempotency_key, channel, recipient, template"
VALUES = "'k', 'sms', '+49', '{\"body\": \"x\"}'"
STATE = "INSERT INTO dispatcher.delivery_state (id, channel, lane, run_at, ready, status, finished_at)"


def _insert(created_at: str, *, identifier: int = 1) -> str:
    return (
        f"INSERT INTO dispatcher.deliveries (id, {COLUMNS}, created_at) VALUES ({identifier}, {VALUES}, {created_at})"
    )


@pytest.mark.parametrize("created_at", ["now()", "DEFAULT"])
async def test_deliveries_of_the_current_transaction_are_due(
    scene: Scene, connection: Connection, created_at: str
) -> None:
    await connection.execute(_insert(created_at))
    assert await scene.life(1) == "pending"


async def test_rows_created_late_in_a_transaction_are_due(scene: Scene, connection: Connection) -> None:
    """However long it has been going on: the column's default is its beginning."""
    async with connection.transaction():
        began = await connection.fetchval("SELECT now()")
        while await connection.fetchval("SELECT clock_timestamp()") == began:
            pass
        await connection.execute(f"INSERT INTO dispatcher.deliveries ({COLUMNS}) VALUES ({VALUES})")
    assert len(await scene.claim()) == 1


@pytest.mark.parametrize("created_at", ["now() - interval '1 microsecond'", "now() + interval '1 hour'"])
async def test_copied_rows_of_another_transaction_are_held_with_a_reason(
    scene: Scene, connection: Connection, created_at: str
) -> None:
    await connection.execute(_insert(created_at))
    assert await scene.life(1) == "held"
    assert (await scene.row(1))[
        "error"
    ] == "quarantined: created_at was given, as in a copy of one that may have been sent"
    assert await connection.fetchval("SELECT dispatcher.settle_held(1, 'requeue', 'ann', 'it is new')") == "settled"
    assert len(await scene.claim()) == 1


async def test_deliveries_that_are_copied_with_all_their_columns_are_held(
    scene: Scene, connection: Connection, tmp_path: Path
) -> None:
    ids = await scene.write(3)
    file = tmp_path / "copy"
    await connection.copy_from_table("deliveries", schema_name="dispatcher", output=file)
    async with connection.transaction():
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute("DELETE FROM dispatcher.deliveries; DELETE FROM dispatcher.delivery_state")
    await connection.copy_to_table("deliveries", schema_name="dispatcher", source=file)
    assert await scene.lives(ids) == ["held"] * 3


async def test_the_view_does_not_accept_a_creation_time(connection: Connection) -> None:
    insert = f"INSERT INTO dispatcher.channel_outbox ({COLUMNS}, created_at) VALUES ({VALUES}, $1)"
    with pytest.raises(asyncpg.CheckViolationError, match="created_at"):
        await connection.execute(insert, await connection.fetchval("SELECT now()"))
    await connection.execute(insert.replace("$1", "now()"))


async def test_where_a_copy_stood_comes_after_it_though_both_come_at_the_same_time(
    scene: Scene, connection: Connection, url: str
) -> None:
    """As a restore with several jobs brings them."""
    other = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            await connection.execute(_insert("now() - interval '1 hour'"))
            states = asyncio.create_task(other.execute(f"{STATE} VALUES (1, 'sms', 1, now(), false, 'sent', now())"))
            await until_blocked(connection)
        await states
    finally:
        await other.close()
    assert await scene.life(1) == "sent"


async def test_where_a_copy_stood_may_come_before_it(scene: Scene, connection: Connection) -> None:
    await connection.execute(f"{STATE} VALUES (1, 'sms', 1, now(), false, 'sent', now())")
    await connection.execute(f"{STATE} VALUES (2, 'sms', 1, now(), true, 'queued', NULL)")
    await connection.execute(_insert("now() - interval '1 hour'"))
    await connection.execute(_insert("now() - interval '1 hour'", identifier=2).replace("'k'", "'l'"))
    assert await scene.lives([1, 2]) == ["sent", "held"]


async def test_where_a_delivery_stands_is_not_overwritten(scene: Scene, connection: Connection) -> None:
    (one,) = await scene.write(1)
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="state of its own"):
        await connection.execute(f"{STATE} VALUES ({one}, 'sms', 1, now(), false, 'sent', now())")
    assert await scene.life(one) == "pending"
