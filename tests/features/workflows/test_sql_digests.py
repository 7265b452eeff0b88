"""Digests between runs: who leads, who leaves what with whom, and what becomes of it when the leader ends."""

import json
from typing import Any

import pytest

from dispatcher.db.database import Database
from dispatcher.db.health import checks
from tests.support.flows import fail, put, trigger
from tests.support.scene import Connection

ENTER = "SELECT leader FROM dispatcher.enter_digest(1, 'wait', 'ann', $1, 60, $2, $3)"
COLLECT = "SELECT dispatcher.collect_digest($1, 'wait')"


@pytest.fixture
async def runs(connection: Connection) -> list[int]:
    """Three runs."""
    await put(connection)
    return [(await trigger(connection))["execution_id"] for _ in range(3)]


async def _enter(connection: Connection, run: int, items_max: int = 10) -> int:
    return int(await connection.fetchval(ENTER, run, items_max, json.dumps({"run": run})))


async def _collect(connection: Connection, run: int) -> list[Any]:
    return [item["run"] for item in json.loads(await connection.fetchval(COLLECT, run))]


async def test_the_first_leads_and_has_what_the_others_brought(connection: Connection, runs: list[int]) -> None:
    assert [await _enter(connection, run) for run in runs] == [runs[0]] * 3
    assert await _collect(connection, runs[0]) == runs
    # Whoever comes now leads another.
    assert await _enter(connection, runs[1]) == runs[1]


async def test_a_full_one_takes_no_more(connection: Connection, runs: list[int]) -> None:
    assert [await _enter(connection, run, 2) for run in runs] == [runs[0], runs[0], runs[2]]


@pytest.mark.parametrize("end", ["failed", "cancelled"])
async def test_no_item_joins_a_digest_of_an_ended_leader(
    connection: Connection, database: Database, runs: list[int], end: str
) -> None:
    await _enter(connection, runs[0])
    await _enter(connection, runs[1])
    if end == "failed":
        await fail(connection, runs[0], "wait")
    else:
        await connection.execute("SELECT dispatcher.cancel_run($1)", runs[0])
    assert await checks.check(database, "digests_are_led") is None
    assert await _enter(connection, runs[2]) == runs[2]
    # Replayed, the leader still has what was left with it; it comes to its digest again, and counts once.
    assert await _enter(connection, runs[0]) == runs[2]
    assert await _collect(connection, runs[0]) == runs[:2]


async def test_a_leader_that_comes_again_counts_once(connection: Connection, runs: list[int]) -> None:
    await _enter(connection, runs[0])
    await _enter(connection, runs[1])
    await fail(connection, runs[0], "wait")
    await connection.execute("SELECT dispatcher.replay_run($1)", runs[0])
    assert await _enter(connection, runs[0]) == runs[0]
    assert await _collect(connection, runs[0]) == runs[:2]
