"""What looking for a key reads: its place in an index and none of the other keys, also where nobody has counted."""

import json

import asyncpg
import pytest

from dispatcher.db.database import SESSION
from dispatcher.db.statements import statements
from tests.support.explained import explained
from tests.support.flows import put
from tests.support.scene import Scene

MANY = 3_000
# Of catalogues, indexes and what is written: a third of what reading all those keys takes.
PAGES_MAX = 300

TRIGGER = "SELECT dispatcher.trigger_workflow('welcome', '{}', 'k' || n) FROM generate_series($1::int, $2) AS n"
ENQUEUE = """
    SELECT dispatcher.enqueue_delivery('sms', '+4917', 'k' || n, '{"body": "x"}') FROM generate_series($1::int, $2) AS n
"""
INSERT = """
    INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template)
    SELECT 'k' || n, 'sms', '+4917012345', '{"body": "x"}' FROM generate_series($1::int, $2) AS n
"""
START = """
    INSERT INTO dispatcher.runs (workflow_id, version_id, tenant_id, workspace_id, workflow, triggered_by, input,
                                 idempotency_key)
    SELECT 1, 1, 'default', 'default', 'welcome', 'ann', '{}', 'k' || n FROM generate_series($1::int, $2) AS n
"""


@pytest.mark.parametrize(
    ("call", "keys"),
    [(TRIGGER, (MANY + 1, 7)), (ENQUEUE, (MANY + 1, 7)), (INSERT, (MANY + 1,)), (START, (MANY + 1,))],
    ids=["trigger", "enqueue", "insert", "start"],
)
async def test_a_key_of_many_in_one_transaction_costs_no_look_at_the_others(
    url: str, scene: Scene, call: str, keys: tuple[int, ...]
) -> None:
    session = await asyncpg.connect(url, server_settings=SESSION)
    await put(session)
    await session.execute("SELECT dispatcher.keep_erased_keys()")
    async with session.transaction():
        await session.fetch(call, 1, MANY)
        for key in keys:
            told = await session.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {call}", key, key)
            plan = json.loads(told)[0]["Plan"]
            assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < PAGES_MAX
    await session.close()


@pytest.mark.parametrize(
    ("file", "name", "asked"),
    [
        ("dispatcher.features.deliveries.store", "holders", (["default"], ["default"], ["k7"])),
        ("dispatcher.features.deliveries.store", "find", ("default", "default", "k7")),
        ("dispatcher.http.server.idempotency", "find", ("default", "default", "k7")),
    ],
)
async def test_a_key_is_found_by_its_whole_hash(
    url: str, scene: Scene, file: str, name: str, asked: tuple[object, ...]
) -> None:
    session = await asyncpg.connect(url, server_settings=SESSION)
    async with session.transaction():
        await session.execute(INSERT, 1, MANY)
        await session.execute(
            """INSERT INTO dispatcher.api_answers (tenant_id, workspace_id, key, asked, status, answer)
               SELECT 'default', 'default', 'k' || n, '', 200, '' FROM generate_series(1, $1::int) AS n""",
            MANY,
        )
        plan = await explained(session, (statements(file)[name], asked))
        assert "Rows Removed by Filter" not in plan, plan
        assert "Seq Scan on" not in plan, plan
    await session.close()
