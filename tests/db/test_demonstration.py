"""OP-14: the demonstration takes a database that it made itself, and no other."""

import asyncpg
import pytest

from dispatcher.base.errors import DemonstrationRefused
from dispatcher.config.settings import Database as Settings
from dispatcher.db.database import Database
from dispatcher.db.schema import migrator
from dispatcher.engine.store import instances
from dispatcher.process.demo import database as demo_database


async def _joined(url: str, name: str) -> None:
    database = Database(Settings(), url)
    await database.open()
    try:
        await instances.join(database, instances.Beat(1, 0, 10.0, name, ""), "0")
    finally:
        await database.close()


async def _run(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def test_it_makes_an_empty_database_its_own_and_takes_that_again(empty_url: str) -> None:
    assert await demo_database.prepare(empty_url)
    assert not await demo_database.prepare(empty_url)
    # What a demonstration that was killed has left there keeps nobody out.
    await _joined(empty_url, demo_database.NAME)
    assert not await demo_database.prepare(empty_url)


async def test_it_goes_on_where_its_first_start_was_cut_off(empty_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("dispatcher.db.schema.migrator.migrate", _cut_off)
        with pytest.raises(ConnectionResetError):
            await demo_database.prepare(empty_url)
    assert await demo_database.prepare(empty_url)


async def _cut_off(_url: str) -> list[migrator.Migration]:
    raise ConnectionResetError


async def test_one_with_tables_of_an_application_is_refused_and_left_alone(empty_url: str) -> None:
    await _run(empty_url, "CREATE TABLE orders (id bigint)")
    for _ in range(2):
        with pytest.raises(DemonstrationRefused, match="unset DISPATCHER_DATABASE_URL"):
            await demo_database.prepare(empty_url)


async def test_one_that_was_migrated_for_other_work_is_refused(url: str) -> None:
    with pytest.raises(DemonstrationRefused, match="made itself"):
        await demo_database.prepare(url)


async def test_its_own_is_refused_while_a_dispatcher_works_there_and_not_when_that_is_dead(empty_url: str) -> None:
    await demo_database.prepare(empty_url)
    await _joined(empty_url, "web-1")
    with pytest.raises(DemonstrationRefused, match="web-1"):
        await demo_database.prepare(empty_url)
    await _run(empty_url, "UPDATE dispatcher.instances SET beat_at = beat_at - interval '11 s'")
    assert not await demo_database.prepare(empty_url)
