"""The store of schedules: saving, actions, and copies of a database, which must not tick."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dispatcher.base.errors import ScheduleRefused
from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.features.schedules import store as schedules
from dispatcher.features.schedules.store import Definition
from tests.features.runs.plans import idle, put_plan
from tests.support.scene import Connection

HERE = Workspace()
WEEKLY = Definition("weekly", "report", "0 9 * * 1", "Europe/Berlin", '{"a": 1}')


@pytest.fixture(autouse=True)
async def workflow(connection: Connection) -> None:
    """What is to be triggered."""
    await put_plan(connection, idle())


async def _row(connection: Connection) -> Any:
    return await connection.fetchrow("SELECT * FROM dispatcher.schedules")


async def test_an_equal_definition_changes_nothing(database: Database, connection: Connection) -> None:
    assert await schedules.put(database, HERE, WEEKLY, "ann") == "created"
    before = await _row(connection)
    assert await schedules.put(database, HERE, WEEKLY, "bob") == "same"
    assert await _row(connection) == before
    assert (before["active"], before["next_at"] > datetime.now(UTC)) == (True, True)


async def test_a_missed_tick_outlives_a_change_of_the_input_and_not_one_of_the_times(
    database: Database, connection: Connection
) -> None:
    await schedules.put(database, HERE, WEEKLY, "ann")
    missed = datetime(2026, 1, 5, 8, tzinfo=UTC)
    await connection.execute("UPDATE dispatcher.schedules SET next_at = $1", missed)
    assert (
        await schedules.put(database, HERE, Definition("weekly", "report", "0 9 * * 1", "Europe/Berlin"), "ann")
        == "changed"
    )
    assert (await _row(connection))["next_at"] == missed
    assert await schedules.put(database, HERE, Definition("weekly", "report", "0 9 * * 1"), "ann") == "changed"
    assert (await _row(connection))["next_at"] > datetime.now(UTC)


async def test_actions_stay_after_a_schedule_is_deleted(database: Database, connection: Connection) -> None:
    await schedules.put(database, HERE, WEEKLY, "ann")
    await schedules.put(database, HERE, Definition("weekly", "report", "@daily"), "bob")
    assert await schedules.deactivate(database, HERE, "weekly", "cid") == "done"
    assert await schedules.deactivate(database, HERE, "weekly", "cid") == "same"
    assert await schedules.activate(database, HERE, "weekly", "dan", skip_missed=False) == "done"
    assert await schedules.activate(database, HERE, "weekly", "dan", skip_missed=True) == "same"
    assert await schedules.delete(database, HERE, "weekly", "eve") == "deleted"
    rows = await connection.fetch(
        "SELECT actor, action, version, said->>'cron' AS cron FROM dispatcher.schedule_actions ORDER BY id"
    )
    assert [tuple(row) for row in rows] == [
        ("ann", "put", 1, "0 9 * * 1"),
        ("bob", "put", 2, "@daily"),
        ("cid", "deactivate", 2, "@daily"),
        ("dan", "activate", 2, "@daily"),
        ("eve", "delete", 2, "@daily"),
    ]


async def test_one_of_another_workspace_is_unknown(database: Database) -> None:
    await schedules.put(database, HERE, WEEKLY, "ann")
    for other in (Workspace("other"), Workspace("default", "other")):
        assert await schedules.show(database, other, "weekly") is None
        assert await schedules.activate(database, other, "weekly", "ann", skip_missed=True) == "unknown"
        assert await schedules.deactivate(database, other, "weekly", "ann") == "unknown"
        assert await schedules.delete(database, other, "weekly", "ann") == "unknown"
        assert await schedules.listed(database, other, "", 10) == []
        assert await schedules.fault(database, other, "weekly") is None


async def test_missed_ticks_can_be_skipped(database: Database, connection: Connection) -> None:
    await schedules.put(database, HERE, WEEKLY, "ann")
    await schedules.deactivate(database, HERE, "weekly", "ann")
    await connection.execute("UPDATE dispatcher.schedules SET next_at = now() - interval '1 month'")
    await schedules.activate(database, HERE, "weekly", "ann", skip_missed=True)
    assert (await _row(connection))["next_at"] > datetime.now(UTC)


@pytest.mark.parametrize(
    ("asked", "path"),
    [
        (Definition("a b", "report", "@daily"), "$.name"),
        (Definition("x" * 101, "report", "@daily"), "$.name"),
        (Definition("weekly", "unknown", "@daily"), "$.workflow"),
        (Definition("weekly", "report", "@reboot"), "$.cron"),
        (Definition("weekly", "report", "@daily", "Mars/Base"), "$.time_zone"),
        (Definition("weekly", "report", "@daily", "UTC", "[]"), "$.input"),
        (Definition("weekly", "report", "@daily", "UTC", '{"a": "\\u0000"}'), "$.input"),
        (Definition("weekly", "report", "@daily", "UTC", '{"a": "' + "x" * 1_048_576 + '"}'), "$.input"),
    ],
)
async def test_invalid_values_are_refused_with_their_path(
    database: Database, connection: Connection, asked: Definition, path: str
) -> None:
    with pytest.raises(ScheduleRefused) as refused:
        await schedules.put(database, HERE, asked, "ann")
    assert [fault.path for fault in refused.value.faults] == [path]
    assert await _row(connection) is None


async def test_the_fault_of_a_future_tick_is_found_without_writing(database: Database, connection: Connection) -> None:
    await schedules.put(database, HERE, WEEKLY, "ann")
    assert await schedules.fault(database, HERE, "weekly") is None
    await put_plan(connection, idle("report", "customer", "a"))
    fault = await schedules.fault(database, HERE, "weekly")
    assert fault is not None
    assert "customer" in fault
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.runs") == 0


async def test_a_copy_rests(connection: Connection) -> None:
    """Where the dump was made it may tick still."""
    copy = """INSERT INTO dispatcher.schedules
                     (created_at, next_at, tenant_id, workspace_id, name, workflow, cron, time_zone, input)
              VALUES ($1, now(), 'default', 'default', 'weekly', 'report', '@daily', 'UTC', '{}') RETURNING active"""
    assert await connection.fetchval(copy, datetime(2026, 1, 1, tzinfo=UTC)) is False


async def test_in_another_place_ticks_of_before_have_no_run(database: Database, connection: Connection) -> None:
    """A restore, a failover: what is due may have been triggered where nobody here can see it."""
    await schedules.put(database, HERE, Definition("weekly", "report", "@hourly"), "ann")
    await connection.execute("UPDATE dispatcher.schedules SET next_at = now() - interval '1 s'")
    await connection.execute("SELECT dispatcher.see_cluster()")
    assert (await _row(connection))["doubted_until"] is None
    await connection.execute("UPDATE dispatcher.clusters SET timeline = timeline + 1")
    await connection.execute("SELECT dispatcher.see_cluster()")
    row = await _row(connection)
    assert row["doubted_until"] > row["next_at"]
    tick = "SELECT refusal FROM dispatcher.tick_schedule($1, $2, $3, 0)"
    refusal = await connection.fetchval(tick, row["id"], row["next_at"], row["doubted_until"] + timedelta(hours=1))
    assert refusal.startswith("quarantined: ")
    assert await connection.fetchval(tick, row["id"], row["doubted_until"] + timedelta(hours=1), None) is None
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.runs") == 1
