"""OB-12 for campaigns: what comes back from a backup expands and sends nothing until somebody resumes it."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from dispatcher.db.database import Database
from dispatcher.db.schema import migrator
from dispatcher.engine.rules.life import Failed, Held, Succeeded
from tests.conformance.servers import dump, outbox_at, run
from tests.support.deployed import Campaigns, close, expand, marked
from tests.support.program import Program
from tests.support.scene import Connection, Scene
from tests.support.waits import until

LATER = datetime(2040, 1, 1, tzinfo=UTC)
LEDGER = "--exclude-table-data=dispatcher.schema_migrations"
CONTACTS = 5


class Runs(Struct):
    """Runs of a database when it was dumped."""

    over: int
    sending: int
    queued: int
    later: int


@pytest.fixture
async def runs(connection: Connection, database: Database) -> Runs:
    """A run that has ended, one that is half sent, one that is not expanded yet, and one whose time comes later."""
    await database.watch()
    scene = await Scene.open(database)
    campaigns = Campaigns(connection)
    await campaigns.make(CONTACTS)
    # One has no address: its delivery is written as ended.
    await connection.execute("DELETE FROM dispatcher.contact_addresses WHERE written = '+491700000004'")
    over = await campaigns.deploy()
    await expand(scene)
    await scene.flush(*((item, Succeeded(f"m-{item.id}")) for item in await marked(scene)))
    await close(scene)
    sending = await campaigns.deploy()
    await expand(scene)
    first, second, third, _ = await marked(scene)
    await scene.flush((first, Succeeded("m")), (second, Failed("550")), (third, Held("no answer")))
    # What is counted and what is not must add up.
    await close(scene)
    return Runs(over, sending, await campaigns.deploy(), await campaigns.deploy(scheduled_for=LATER))


@pytest.fixture
async def restoring(empty_url: str) -> AsyncIterator[Program]:
    """The program on the database that it is restored into."""
    program = Program(empty_url)
    try:
        yield program
    finally:
        program.end()


async def _row(connection: Connection, number: int) -> Any:
    return await connection.fetchrow("SELECT * FROM dispatcher.campaign_runs WHERE id = $1", number)


async def _paused(connection: Connection, runs: Runs) -> list[int]:
    rows = await connection.fetch("SELECT id FROM dispatcher.campaign_runs WHERE paused_at IS NOT NULL ORDER BY id")
    assert [row["id"] for row in rows if row["id"] == runs.over] == []
    return [row["id"] for row in rows]


async def _goes_on(connection: Connection, runs: Runs) -> None:
    """Counters settle, nothing is sent, and who resumes the run that was not expanded gets each message once."""

    async def counted() -> bool:
        row = await _row(connection, runs.sending)
        return (row["sent"], row["failed"], row["skipped"], row["held"]) == (1, 1, 1, 2)

    await until(counted, "what is held counts as held")
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.captured_messages") == 0
    assert (await _row(connection, runs.queued))["expanded"] == 0
    assert await connection.fetchval("SELECT dispatcher.resume_campaign_run($1)", runs.queued) == "done"

    async def sent() -> bool:
        return bool((await _row(connection, runs.queued))["status"] == "completed")

    await until(sent, "the run that was resumed is sent")
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.captured_messages") == CONTACTS - 1
    assert (await _row(connection, runs.sending))["status"] == "running"
    held = "SELECT id FROM dispatcher.delivery_state WHERE held ORDER BY id"
    for row in await connection.fetch(held):
        await connection.execute("UPDATE dispatcher.delivery_state SET settle_after = NULL WHERE id = $1", row["id"])
        settled = await connection.fetchval("SELECT dispatcher.settle_held($1, 'sent', 'ann', 'seen')", row["id"])
        assert settled == "settled"

    async def ended() -> bool:
        row = await _row(connection, runs.sending)
        return (row["status"], row["sent"], row["held"]) == ("partial", 3, 0)

    await until(ended, "what was held has ended, and so has the run")


@pytest.mark.parametrize("words", [(), ("--single-transaction",)])
async def test_OB_12_restored_campaigns_rest_until_somebody_resumes_them(
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
    assert restored.stderr == b"", restored.stderr.decode()
    async with outbox_at(empty_url) as outbox:
        there = outbox.connection
        assert await _paused(there, runs) == [runs.sending, runs.queued, runs.later]
        assert "created_at was given" in (await _row(there, runs.queued))["note"]
        await _goes_on(there, runs)
    checked = await asyncio.to_thread(restoring.run, "check")
    assert checked.returncode == 0, checked.stdout


async def test_OB_12_a_dump_that_is_restored_whole_pauses_campaigns_that_may_have_come_further(
    connection: Connection, runs: Runs, url: str, empty_url: str, tmp_path: Path, restoring: Program
) -> None:
    """A run whose time comes later has come nowhere, and begins then."""
    await dump(connection, url, tmp_path / "dump")
    assert (await run(connection, "pg_restore", "-d", empty_url, str(tmp_path / "dump"))).stderr == b""
    await restoring.start()
    async with outbox_at(empty_url) as outbox:
        there = outbox.connection

        async def paused() -> bool:
            return await _paused(there, runs) == [runs.sending, runs.queued]

        await until(paused, "the cluster is another, and the runs are paused")
        pauses = await there.fetch("SELECT name FROM dispatcher.pauses WHERE scope = 'campaign_run' ORDER BY id")
        assert [int(row["name"]) for row in pauses] == [runs.sending, runs.queued]
        await _goes_on(there, runs)
    # Two runs, and the delivery whose call had begun.
    assert [line["quarantined"] for line in restoring.events("cluster.changed")] == [3]


async def test_OB_12_a_quarantine_counts_runs_of_campaigns(
    program: Program, connection: Connection, runs: Runs
) -> None:
    words = ("quarantine", "--before", "2039-01-01T00:00:00Z", "--reason", "restored", "--actor", "ann")
    asked = await asyncio.to_thread(program.run, *words)
    said = (asked.stdout + asked.stderr).decode()
    assert "1 delivery created before 2039-01-01 00:00:00 UTC would be held, 2 campaign runs paused" in said
    done = await asyncio.to_thread(program.run, *words, "--yes")
    assert "1 delivery held, 2 campaign runs paused: see " in done.stdout.decode()
    assert await _paused(connection, runs) == [runs.sending, runs.queued]
    noted = "SELECT actor, event, reason FROM dispatcher.campaign_events WHERE run_id = $1 ORDER BY id DESC LIMIT 1"
    assert tuple(await connection.fetchrow(noted, runs.queued) or ()) == ("ann", "pause", "quarantined: restored")
    await connection.fetchval("SELECT dispatcher.close_jobs(100)")
    assert (await _row(connection, runs.sending))["held"] == 2
