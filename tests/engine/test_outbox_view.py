"""The view `channel_outbox` as an application uses it, and what the tables behind it refuse."""

import asyncpg
import pytest

from dispatcher.engine.rules.life import Failed, Succeeded
from dispatcher.features.deliveries import store as deliveries
from tests.support.scene import RESEND, Connection, Scene

INSERT = """INSERT INTO dispatcher.channel_outbox (idempotency_key, channel, recipient, template)
            VALUES ($1, 'sms', '+49', '{"body": "x"}')"""
PLAIN = """INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template)
           VALUES ($1, 'sms', '+49', '{"body": "x"}')"""
TERMINAL = ("sent", "failed", "skipped")


async def _life(connection: Connection, key: str) -> str:
    return str(await connection.fetchval("SELECT life FROM dispatcher.delivery_life WHERE idempotency_key = $1", key))


async def test_an_insert_through_the_view_is_due_and_answers_the_row(connection: Connection) -> None:
    (row,) = await connection.fetch(f"{INSERT} RETURNING *", "k")
    assert (row["status"], row["skipped"], row["attempts"], row["tenant_id"]) == ("queued", False, 0, "default")
    assert row["id"] == await connection.fetchval("SELECT id FROM dispatcher.deliveries")
    assert await _life(connection, "k") == "pending"


async def test_an_insert_through_the_view_may_name_its_time(connection: Connection) -> None:
    await connection.execute(
        """INSERT INTO dispatcher.channel_outbox (idempotency_key, channel, recipient, template, run_at)
           VALUES ('k', 'sms', '+49', '{"body": "x"}', '2040-01-01T00:00Z')"""
    )
    (row,) = await connection.fetch("SELECT run_at, scheduled_for FROM dispatcher.channel_outbox")
    assert row["run_at"] == row["scheduled_for"]
    assert row["run_at"].year == 2040


async def test_an_insert_through_the_view_may_name_its_template(scene: Scene, connection: Connection) -> None:
    (row,) = await connection.fetch(
        """INSERT INTO dispatcher.channel_outbox (idempotency_key, channel, recipient, template, template_name)
           VALUES ('k', 'sms', '+49', '{"body": "x"}', 'welcome') RETURNING *"""
    )
    last = ["template_name", "template_version", "locale", "traceparent"]
    assert list(row.keys())[-4:] == last, "a column of the contract moved"
    assert row["template_name"] == "welcome"
    (item,) = await scene.claim()
    assert item.template_name == "welcome"


async def test_deliveries_inserted_as_skipped_are_never_due(scene: Scene, connection: Connection) -> None:
    await connection.execute(
        """INSERT INTO dispatcher.channel_outbox (idempotency_key, channel, recipient, template, status, error)
           VALUES ('k', 'sms', '+49', '{"body": "x"}', 'skipped', 'no recipient')"""
    )
    (row,) = await connection.fetch("SELECT * FROM dispatcher.channel_outbox")
    assert (row["status"], row["skipped"], row["error"]) == ("skipped", True, "no recipient")
    assert row["finished_at"] is not None
    assert await scene.claim() == []


@pytest.mark.parametrize("status", ["sent", "called", "posted", "failed"])
async def test_nothing_is_born_with_an_end_but_skipped(connection: Connection, status: str) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await connection.execute(
            """INSERT INTO dispatcher.channel_outbox (idempotency_key, channel, recipient, template, status)
               VALUES ('k', 'sms', '+49', '{"body": "x"}', $1)""",
            status,
        )


async def test_many_rows_go_through_the_view_in_one_statement(connection: Connection) -> None:
    await connection.execute(
        """INSERT INTO dispatcher.channel_outbox (idempotency_key, channel, recipient, template)
           SELECT 'k' || n, 'sms', '+49', '{"body": "x"}' FROM generate_series(1, 50) AS n"""
    )
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.delivery_state WHERE ready") == 50


async def test_status_skipped_cancels_through_the_view(connection: Connection) -> None:
    await connection.execute(INSERT, "k")
    await connection.execute("UPDATE dispatcher.channel_outbox SET status = 'skipped', error = 'not needed'")
    (row,) = await connection.fetch("SELECT status, skipped, error FROM dispatcher.channel_outbox")
    assert tuple(row) == ("skipped", True, "cancelled: not needed")
    (action,) = await connection.fetch("SELECT action, actor, reason FROM dispatcher.operator_actions")
    assert tuple(action) == ("cancel", await connection.fetchval("SELECT session_user"), "not needed")


async def test_run_at_moves_through_the_view(connection: Connection) -> None:
    await connection.execute(INSERT, "k")
    await connection.execute("UPDATE dispatcher.channel_outbox SET run_at = '2040-01-01T00:00Z'")
    assert (await connection.fetchval("SELECT run_at FROM dispatcher.channel_outbox")).year == 2040


@pytest.mark.parametrize(
    "change",
    ["recipient = 'x'", "template = '{}'", "channel = 'email'", "idempotency_key = 'z'", "template_name = 'z'"],
)
async def test_nothing_else_changes_through_the_view(connection: Connection, change: str) -> None:
    await connection.execute(INSERT, "k")
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError):
        await connection.execute(f"UPDATE dispatcher.channel_outbox SET {change}")


@pytest.mark.parametrize("change", ["status = 'skipped'", "run_at = now()"])
async def test_a_marked_delivery_can_be_neither_cancelled_nor_moved(
    scene: Scene, connection: Connection, change: str
) -> None:
    (item,) = await scene.marked()
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="too late"):
        await connection.execute(f"UPDATE dispatcher.channel_outbox SET {change}")
    assert await scene.life(item.id) == "sending"


async def test_nothing_is_deleted_through_the_view(connection: Connection) -> None:
    await connection.execute(INSERT, "k")
    with pytest.raises(asyncpg.PostgresError):
        await connection.execute("DELETE FROM dispatcher.channel_outbox")


async def test_on_conflict_works_on_deliveries(connection: Connection) -> None:
    await connection.execute(PLAIN, "k")
    again = f"{PLAIN} ON CONFLICT (tenant_id, workspace_id, idempotency_key) DO NOTHING RETURNING id"
    assert await connection.fetch(again, "k") == []
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.delivery_state") == 1


async def test_copied_deliveries_are_due(scene: Scene, connection: Connection) -> None:
    await connection.copy_records_to_table(
        "deliveries",
        schema_name="dispatcher",
        columns=["idempotency_key", "channel", "recipient", "template"],
        records=[(f"k{n}", "sms", "+4917012345", '{"body": "x"}') for n in range(100)],
    )
    assert len(await scene.claim()) == 100


async def test_rolled_back_inserts_leave_nothing(scene: Scene, connection: Connection) -> None:
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute(INSERT, "k")
    assert await scene.claim() == []
    await transaction.rollback()
    assert await scene.value("SELECT count(*) FROM dispatcher.delivery_state") == 0


@pytest.mark.parametrize("change", ["recipient = 'x'", "variables = '{\"a\": 1}'", "lane = 0", "recipient = recipient"])
async def test_deliveries_are_immutable(connection: Connection, change: str) -> None:
    await connection.execute(PLAIN, "k")
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="immutable"):
        await connection.execute(f"UPDATE dispatcher.deliveries SET {change}")


async def test_a_conflict_cannot_change_a_delivery_either(connection: Connection) -> None:
    await connection.execute(PLAIN, "k")
    upsert = f"{PLAIN} ON CONFLICT (tenant_id, workspace_id, idempotency_key) DO UPDATE SET recipient = 'x'"
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError):
        await connection.execute(upsert, "k")


async def test_an_unfinished_delivery_cannot_be_deleted(scene: Scene, connection: Connection) -> None:
    (item,) = await scene.marked()
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="not finished"):
        await connection.execute("DELETE FROM dispatcher.deliveries")
    assert await scene.life(item.id) == "sending"


async def test_a_finished_delivery_is_deleted_with_its_state(scene: Scene, connection: Connection) -> None:
    (item,) = await scene.marked()
    await scene.flush((item, Failed("recipient: no")))
    await deliveries.reopen(scene.database, item.id, "ann", "he has moved")
    (item,) = await scene.claim(resend=RESEND)
    await scene.mark([item])
    await scene.die()
    rival = await Scene.open(scene.database)
    (again,) = await rival.claim()
    await rival.mark([again])
    await scene.late(item, Succeeded("late"))
    await rival.flush((again, Succeeded("m-1")))
    await connection.execute("DELETE FROM dispatcher.deliveries")
    for table in ("delivery_state", "delivery_attempts", "delivery_evidence", "reopened_ends", "captured_messages"):
        assert await connection.fetchval(f"SELECT count(*) FROM dispatcher.{table}") == 0


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("channel", "No Name"),
        ("lane", 3),
        ("max_attempts", 0),
        ("template", "[]"),
        ("template", "{}"),
        ("variables", "[]"),
        ("options", "1"),
        ("tenant_id", ""),
        ("idempotency_key", ""),
        ("idempotency_key", "k" * 256),
    ],
)
async def test_values_that_could_not_be_sent_are_refused(connection: Connection, column: str, value: object) -> None:
    columns = {"idempotency_key": "k", "channel": "sms", "recipient": "+4917012345", "template": '{"body": "x"}'} | {
        column: value
    }
    places = ", ".join(f"${n}" for n in range(1, len(columns) + 1))
    with pytest.raises(asyncpg.CheckViolationError):
        await connection.execute(
            f"INSERT INTO dispatcher.deliveries ({', '.join(columns)}) VALUES ({places})", *columns.values()
        )
