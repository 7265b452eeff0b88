"""What walks read: the runs that are due, and none of the many that wait, whatever the statistics say."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from dispatcher.db.database import SESSION
from dispatcher.db.statements import statements
from tests.support.databases import TEMPLATE, new_database
from tests.support.explained import explained
from tests.support.flows import put
from tests.support.scene import Connection, Scene

WAITING = 30_000
DUE = 10
_SQL = statements("dispatcher.features.runs.walk.walking")
_SETTLING = statements("dispatcher.features.runs.walk.settling")


@pytest.fixture(scope="module", params=["statistics_of_empty_tables", "fresh_statistics"])
async def filled(template: str, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """A database where many runs wait and a few are due or woken."""
    async with new_database(template, TEMPLATE) as url:
        connection = await asyncpg.connect(url, server_settings=SESSION)
        await put(connection)
        tables = "dispatcher.runs, dispatcher.wakes, dispatcher.walks, dispatcher.deliveries, dispatcher.delivery_state"
        if "fresh" not in request.param:
            await connection.execute(f"ANALYZE {tables}")
        await _wait(connection, WAITING)
        await connection.execute(
            """INSERT INTO dispatcher.deliveries (run_id, node, idempotency_key, channel, recipient, template)
               SELECT id, 'mail', id, 'sms', '+4917012345', '{"body": "x"}' FROM dispatcher.runs"""
        )
        first = await connection.fetchval("SELECT min(id) FROM dispatcher.runs")
        await connection.execute(
            "UPDATE dispatcher.runs SET available_at = now() - interval '1 s' WHERE id < $1", first + DUE
        )
        await connection.execute(
            "INSERT INTO dispatcher.wakes SELECT $1 + n % 10 FROM generate_series(1, 100) AS n", first + DUE
        )
        await connection.execute(
            "UPDATE dispatcher.runs SET takes = 1, available_at = now() - interval '1 s' WHERE id = $1", first + 3 * DUE
        )
        if "fresh" in request.param:
            await connection.execute(f"ANALYZE {tables}")
        await connection.close()
        yield url


@pytest.fixture
async def session(filled: str) -> AsyncIterator[Connection]:
    """A session with the program's own settings, which takes back what it does."""
    connection = await asyncpg.connect(filled, server_settings=SESSION)
    transaction = connection.transaction()
    await transaction.start()
    yield connection
    await transaction.rollback()
    await connection.close()


async def _wait(session: Connection, count: int) -> None:
    """Let so many runs wait."""
    await session.execute(
        """INSERT INTO dispatcher.runs (workflow_id, version_id, status, available_at, tenant_id, workspace_id,
                                        workflow, triggered_by, input)
           SELECT 1, 1, 'waiting', now() + make_interval(days => 1, secs => n), 'default', 'default', 'welcome', 'ann',
                  '{}'
             FROM generate_series(1, $1::int) AS n""",
        count,
    )


def _reads_little(plan: str) -> None:
    for table in ("runs", "deliveries", "delivery_state", "wakes"):
        assert f"Seq Scan on {table} " not in plan, plan
    # A whole index is no better than a whole table.
    rows = [
        int(line.split("rows=")[1].split()[0].split(".")[0]) for line in plan.splitlines() if "actual rows=" in line
    ]
    assert max(rows) <= 200, plan


async def test_due_and_woken_runs_are_found_by_index(session: Connection) -> None:
    plan = await explained(session, (_SQL["take"], (50, 7, 2**63 - 1)))
    assert "runs_due" in plan
    assert "Rows Removed by Filter: 3" not in plan, plan
    _reads_little(plan)


async def test_a_plan_from_before_anything_was_known_reads_no_waiting_runs_either(url: str, scene: Scene) -> None:
    # A session keeps the plan that it made when there were few runs and nobody had counted them, or what wakes them.
    session = await asyncpg.connect(url, server_settings=SESSION)
    await put(session)
    await _wait(session, WAITING // 20)
    plan = await explained(session, (_SQL["take"], (50, 7, 2**63 - 1)))
    await session.close()
    _reads_little(plan)


async def test_a_crashed_run_is_found_by_index(session: Connection) -> None:
    plan = await explained(session, (_SQL["take_crashed"], (5,)))
    assert "runs_suspect" in plan
    _reads_little(plan)


async def test_whether_runs_are_walked_alone_is_seen_in_indexes(session: Connection) -> None:
    plan = await explained(session, (_SQL["left_alone"], (5,)))
    assert "runs_suspect" in plan
    assert "runs_slow" in plan
    _reads_little(plan)


async def test_a_poison_run_is_found_by_index(session: Connection) -> None:
    plan = await explained(session, (_SQL["fail_poison"], (5,)))
    assert "runs_suspect" in plan
    _reads_little(plan)


async def test_what_is_to_be_settled_is_found_by_key(session: Connection) -> None:
    plan = await explained(session, (_SETTLING["settle"], (50,)))
    assert "runs_pkey" in plan
    _reads_little(plan)


async def test_whether_the_poison_worker_has_work_is_seen_in_indexes(session: Connection) -> None:
    plan = await explained(session, (_SQL["poison_wanted"] + " AND $1", (True,)))
    assert "runs_parked" in plan
    _reads_little(plan)


async def test_the_next_time_is_the_first_of_an_index(session: Connection) -> None:
    plan = await explained(session, (_SQL["look"] + " AND $1", (True,)))
    assert "runs_due" in plan
    _reads_little(plan)


async def test_results_are_found_by_run_and_node(session: Connection) -> None:
    ids = [row["id"] for row in await session.fetch("SELECT id FROM dispatcher.runs ORDER BY id LIMIT 50")]
    plan = await explained(session, (_SQL["results"], (ids, ["mail"] * len(ids))))
    assert "deliveries_of_run" in plan
    assert "delivery_state_pkey" in plan
    _reads_little(plan)


async def test_runs_are_written_by_key(session: Connection) -> None:
    ids = [row["id"] for row in await session.fetch("SELECT id FROM dispatcher.runs ORDER BY id LIMIT 50")]
    walked = (ids, ["running"] * 50, [None] * 50, [None] * 50, [None] * 50, ['"{}"'] * 50, [None] * 50)
    plan = await explained(session, (_SQL["advance"], (1, 0, *walked, *([[]] * 8))))
    assert "runs_pkey" in plan
    _reads_little(plan)
