"""The peer that workflows are measured beside does all of the work that it is measured by."""

from collections.abc import Iterator

import pytest

from bench.measure import BenchError
from bench.peers import dbos
from bench.server import Server, connected

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not dbos.available(), reason="expected: dbos is an extra (bench) and is not installed"),
]
WORKFLOWS = 30


@pytest.fixture(scope="module")
def bench_server() -> Iterator[Server]:
    """One embedded server; each test takes a database of its own from it."""
    with Server() as server:
        yield server


async def test_dbos_walks_every_workflow_through_both_steps(bench_server: Server) -> None:
    async with bench_server.database() as url:
        await dbos.fill(url, WORKFLOWS)
        seconds, worker, _ = await dbos.drain(bench_server, url, WORKFLOWS)
        async with connected(url) as connection:
            steps = await connection.fetch(
                "SELECT split_part(function_name, '.', -1), count(*) FROM dbos.operation_outputs GROUP BY 1 ORDER BY 1"
            )
    assert [tuple(step) for step in steps] == [("email", WORKFLOWS), ("sms", WORKFLOWS)]
    assert seconds > 0
    assert worker > 0


async def test_an_incomplete_drain_of_dbos_is_not_a_measurement(bench_server: Server) -> None:
    async with bench_server.database() as url:
        await dbos.fill(url, WORKFLOWS)
        with pytest.raises(BenchError, match=f"of {WORKFLOWS} workflows, and was to do {WORKFLOWS - 1}"):
            await dbos.drain(bench_server, url, WORKFLOWS - 1)
