"""OB-12 on data that came back from a backup by any of the ways that there are: nothing already sent becomes ready."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec import Struct

from dispatcher.db.database import Database
from dispatcher.db.schema import migrator
from dispatcher.engine.rules.life import Succeeded
from tests.conformance.outbox import Outbox
from tests.conformance.servers import dump, outbox_at, run
from tests.support.program import Program
from tests.support.scene import Connection, Scene

LATER = datetime(2040, 1, 1, tzinfo=UTC)


class Written(Struct):
    """What a database knew when it was dumped. What was due then may have been sent since."""

    sent: Sequence[int]
    due: Sequence[int]
    later: Sequence[int]

    async def lives(self, outbox: Outbox) -> list[set[str]]:
        """Where they stand in another database."""
        return [{await outbox.life(one) for one in ids} for ids in (self.sent, self.due, self.later)]


@pytest.fixture
async def written(database: Database) -> Written:
    """A database that a dispatcher has worked on, a moment ago."""
    await database.watch()
    scene = await Scene.open(database)
    sent = await scene.marked(3)
    await scene.flush(*((item, Succeeded(f"m-{item.id}")) for item in sent))
    return Written([item.id for item in sent], await scene.write(2), await scene.write(1, scheduled_for=LATER))


async def _restore(connection: Connection, url: str, file: Path, *words: str) -> bytes:
    """Restore; answers what went wrong."""
    return (await run(connection, "pg_restore", *words, "-d", url, str(file))).stderr


async def _takes_work(outbox: Outbox) -> None:
    """What is new is sent, and what is due before it would have been too."""
    await outbox.until_life(await outbox.put(id=1_000, idempotency_key="new"), "sent")


async def test_OB_12_a_dump_that_is_restored_beside_its_origin_is_quarantined(
    connection: Connection, written: Written, url: str, empty_url: str, tmp_path: Path
) -> None:
    """The same server and timeline, and all the same another life: its origin has gone on since."""
    await dump(connection, url, tmp_path / "dump")
    assert await _restore(connection, empty_url, tmp_path / "dump") == b""
    program = Program(empty_url)
    try:
        await program.start()
        async with outbox_at(empty_url) as restored:
            await _takes_work(restored)
            assert await written.lives(restored) == [{"sent"}, {"held"}, {"pending"}]
        assert [line["quarantined"] for line in program.events("cluster.changed")] == [2]
    finally:
        program.end()


@pytest.mark.parametrize("words", [(), ("--jobs", "4"), ("--single-transaction",)])
async def test_OB_12_restored_data_is_held_until_somebody_says_what_became_of_it(
    connection: Connection, written: Written, url: str, empty_url: str, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """In any order, and with several tables at once; what was sent and what it was is still known afterwards."""
    ledger = "--exclude-table-data=dispatcher.schema_migrations"
    await dump(connection, url, tmp_path / "dump", "--data-only", ledger)
    await migrator.migrate(empty_url)
    program = Program(empty_url)
    try:
        await program.start()
        assert await _restore(connection, empty_url, tmp_path / "dump", "--data-only", *words) == b""
        async with outbox_at(empty_url) as restored:
            await _takes_work(restored)
            assert await written.lives(restored) == [{"sent"}, {"held"}, {"held"}]
        checked = await asyncio.to_thread(program.run, "check")
        assert checked.returncode == 0, checked.stdout
    finally:
        program.end()


@pytest.mark.parametrize("used", [False, True])
async def test_OB_12_data_that_is_restored_without_triggers_is_quarantined_at_the_next_start(
    connection: Connection, written: Written, url: str, empty_url: str, tmp_path: Path, used: bool
) -> None:
    """Nothing of ours runs then but what comes with the data: where it is from."""
    await dump(connection, url, tmp_path / "dump", "--data-only", "--exclude-table-data=dispatcher.schema_migrations")
    await migrator.migrate(empty_url)
    program = Program(empty_url)
    try:
        if used:
            await program.start()
            assert await program.stop() == 0
        words = ("--data-only", "--disable-triggers")
        assert await _restore(connection, empty_url, tmp_path / "dump", *words) == b""
        await program.start()
        async with outbox_at(empty_url) as restored:
            await _takes_work(restored)
            assert await written.lives(restored) == [{"sent"}, {"held"}, {"pending"}]
        assert [line["quarantined"] for line in program.events("cluster.changed")] == [2]
    finally:
        program.end()
