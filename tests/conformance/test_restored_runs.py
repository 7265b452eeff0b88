"""OB-12 for runs: what comes back from a backup goes no further until somebody says so: nothing goes out twice."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec import Struct

from dispatcher.db.database import Database
from dispatcher.db.schema import migrator
from dispatcher.engine.rules.life import Succeeded
from tests.conformance.servers import dump, outbox_at, run
from tests.support.flows import at_node, ordered, put, status, trigger
from tests.support.program import Program
from tests.support.scene import Connection, Scene
from tests.support.waits import until

LATER = 2_208_988_800.0  # 2040
LEDGER = "--exclude-table-data=dispatcher.schema_migrations"


class Runs(Struct):
    """Runs of a database when it was dumped: what became of them since, nobody knows here."""

    woken: int
    sending: int
    due: int
    later: int
    over: int

    @property
    def open(self) -> list[int]:
        """Those that were not over."""
        return [self.woken, self.sending, self.due, self.later]


@pytest.fixture
async def runs(connection: Connection, database: Database) -> Runs:
    """Runs at every kind of place."""
    await database.watch()
    await put(connection)
    made = Runs(*[(await trigger(connection, key=f"k{number}"))["execution_id"] for number in range(5)])
    scene = await Scene.open(database)
    await at_node(connection, made.woken)
    await ordered(connection, made.woken)
    (item,) = await scene.claim()
    await scene.mark([item])
    await scene.flush((item, Succeeded("m")))
    await at_node(connection, made.sending)
    await ordered(connection, made.sending)
    await at_node(connection, made.due, "wait", "delaying", 1.0)
    await at_node(connection, made.later, "wait", "delaying", LATER)
    await connection.execute("SELECT dispatcher.cancel_run($1)", made.over)
    await connection.execute(
        """INSERT INTO dispatcher.digests (workflow_id, run_id, until, items_max, node, key)
           VALUES (1, $1, now(), 10, 'wait', 'x')""",
        made.due,
    )
    await connection.execute(
        "INSERT INTO dispatcher.digest_items (digest_id, run_id, item) VALUES (1, $1, '{}')", made.due
    )
    await connection.execute("INSERT INTO dispatcher.walks (epoch, run_ids) VALUES (1, $1)", [made.due])
    return made


@pytest.fixture
async def restoring(empty_url: str) -> AsyncIterator[Program]:
    """The program on the database that it is restored into."""
    program = Program(empty_url)
    try:
        yield program
    finally:
        program.end()


async def _goes_on(connection: Connection) -> None:
    """A run that begins here is walked, and its delivery is sent."""
    new = (await trigger(connection, key="new"))["execution_id"]

    async def sent() -> bool:
        return await status(connection, new) == "waiting"

    await until(sent, "a new run waits at its delay")
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.captured_messages") == 1


@pytest.mark.parametrize("words", [(), ("--jobs", "4")])
async def test_OB_12_restored_runs_rest_until_somebody_resumes_them(
    connection: Connection,
    runs: Runs,
    url: str,
    empty_url: str,
    tmp_path: Path,
    restoring: Program,
    words: tuple[str, ...],
) -> None:
    await dump(connection, url, tmp_path / "dump", "--data-only", LEDGER)
    await migrator.migrate(empty_url)
    await restoring.start()
    restored = await run(connection, "pg_restore", "--data-only", *words, "-d", empty_url, str(tmp_path / "dump"))
    assert restored.stderr == b""
    async with outbox_at(empty_url) as outbox:
        there = outbox.connection
        await _goes_on(there)
        assert [await status(there, one) for one in runs.open] == ["paused"] * 4
        assert await status(there, runs.over) == "cancelled"
        # Its key is still known, and starts nothing.
        assert (await trigger(there, key="k0"))["duplicate"]
        checked = await asyncio.to_thread(restoring.run, "check")
        assert checked.returncode == 0, checked.stdout
        assert await there.fetchval("SELECT dispatcher.resume_run($1)", runs.woken) == "done"

        async def waits() -> bool:
            return await status(there, runs.woken) == "waiting"

        await until(waits, "it goes on with what it had sent")
        assert await there.fetchval("SELECT count(*) FROM dispatcher.captured_messages") == 1


async def test_OB_12_a_dump_that_is_restored_whole_pauses_what_may_have_come_further(
    connection: Connection, runs: Runs, url: str, empty_url: str, tmp_path: Path, restoring: Program
) -> None:
    """One that only waits for a later time has come nowhere, and goes on then."""
    await dump(connection, url, tmp_path / "dump")
    assert (await run(connection, "pg_restore", "-d", empty_url, str(tmp_path / "dump"))).stderr == b""
    await restoring.start()
    async with outbox_at(empty_url) as outbox:
        await _goes_on(outbox.connection)
        assert [await status(outbox.connection, one) for one in runs.open] == ["paused", "paused", "paused", "waiting"]
    # Three runs, and the delivery of one of them.
    assert [line["quarantined"] for line in restoring.events("cluster.changed")] == [4]


async def test_OB_12_a_quarantine_says_both_counts(program: Program, connection: Connection, runs: Runs) -> None:
    words = ("quarantine", "--before", "2039-01-01T00:00:00Z", "--reason", "restored", "--actor", "ann")
    asked = await asyncio.to_thread(program.run, *words)
    said = (asked.stdout + asked.stderr).decode()
    assert "1 delivery created before 2039-01-01 00:00:00 UTC would be held, 3 runs paused" in said
    done = await asyncio.to_thread(program.run, *words, "--yes")
    assert "1 delivery held, 3 runs paused: see " in done.stdout.decode()
    assert [await status(connection, one) for one in runs.open] == ["paused", "paused", "paused", "waiting"]
    noted = "SELECT error FROM dispatcher.run_entries WHERE run_id = $1 ORDER BY number DESC LIMIT 1"
    assert await connection.fetchval(noted, runs.woken) == "ann: quarantined: restored"
