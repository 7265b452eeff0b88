"""Failover detection: another server is noticed before a connection is used, and what may have been sent is held."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import asyncpg
import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from dispatcher.config.settings import Database as Settings
from dispatcher.db.database import Database
from dispatcher.engine.store import held
from dispatcher.engine.store.held import QuarantineCounts
from tests.support.scene import Connection, Scene
from tests.support.waits import until_blocked

ELSEWHERE = {
    "another server": "UPDATE dispatcher.clusters SET system_identifier = system_identifier + 1",
    "another timeline": "UPDATE dispatcher.clusters SET timeline = timeline + 1",
    "another database": "UPDATE dispatcher.clusters SET database_oid = 1",
    "another schema": "UPDATE dispatcher.clusters SET schema_oid = 1",
}
PROMOTED = ELSEWHERE["another timeline"]


@pytest.fixture
async def watched(url: str) -> AsyncIterator[Database]:
    """A pool that looks at its connections."""
    database = Database(Settings(), url)
    await database.open()
    await database.watch()
    await database.value("SELECT 'a connection that lasts'")
    try:
        yield database
    finally:
        await database.close()


async def _cut(database: Database) -> None:
    """Let it need another connection, as after a failover."""
    await database._pool.expire_connections()


async def _again(database: Database) -> list[str]:
    """Use a new connection; what is logged on the way. The first one is refused if it leads elsewhere."""
    with capture_logs() as logs:
        try:
            await database.value("SELECT 1")
        except ConnectionError:
            await database.value("SELECT 1")
    return [line["event"] for line in logs]


async def test_the_first_place_is_noted_and_nothing_is_quarantined(scene: Scene) -> None:
    ids = await scene.write(2)
    with capture_logs() as logs:
        await scene.database.watch()
    assert logs == []
    assert await scene.lives(ids) == ["pending"] * 2
    assert await scene.value("SELECT count(*) FROM dispatcher.clusters") == 1


async def test_a_new_connection_to_the_same_place_is_nothing_new(watched: Database) -> None:
    await _cut(watched)
    assert await _again(watched) == []


@pytest.mark.parametrize("move", ELSEWHERE.values(), ids=ELSEWHERE)
async def test_another_place_is_quarantined_before_a_connection_to_it_is_used(
    watched: Database, connection: Connection, move: str
) -> None:
    moves: list[bool] = []
    watched.failover.moved = lambda: moves.append(True)
    scene = await Scene.open(watched)
    (due,) = await scene.write(1)
    (later,) = await scene.write(1, scheduled_for=datetime.now(UTC) + timedelta(hours=1))
    await connection.execute(move)
    await _cut(watched)
    with pytest.raises(ConnectionError):
        await scene.claim()
    assert moves == [True]
    assert await scene.lives([due, later]) == ["held", "pending"]
    await _cut(watched)
    assert await _again(watched) == [], "it is known now"


async def test_an_instance_from_another_timeline_restarts_after_a_quarantine(
    watched: Database, database: Database, connection: Connection
) -> None:
    """What it knows is of the old server, whoever came to the new one first."""
    moves: list[bool] = []
    watched.failover.moved = lambda: moves.append(True)
    cluster = watched.failover._cluster
    assert cluster is not None
    watched.failover._cluster = replace(cluster, timeline=cluster.timeline - 1)
    await database.watch()
    await _cut(watched)
    assert await _again(watched) == ["cluster.changed"]
    assert moves == [True]


async def test_where_a_lasting_connection_leads_is_seen_too(watched: Database, connection: Connection) -> None:
    """A pooler exchanges the server, and our connections to it stay."""
    scene = await Scene.open(watched)
    (due,) = await scene.write(1)
    await connection.execute(PROMOTED)
    with capture_logs() as logs:
        await watched.check_cluster()
    assert [line["event"] for line in logs] == ["cluster.changed"]
    assert await scene.life(due) == "held"


async def test_of_the_old_connections_none_is_used_again(watched: Database, connection: Connection) -> None:
    before = await watched.value("SELECT pg_backend_pid()")
    await connection.execute(PROMOTED)
    await watched.check_cluster()
    assert await watched.value("SELECT pg_backend_pid()") != before


async def test_a_connection_that_was_never_looked_at_is_not_used_again(database: Database) -> None:
    before = await database.value("SELECT pg_backend_pid()")
    await database.watch()
    assert await database.value("SELECT pg_backend_pid()") != before


async def test_a_quarantine_may_take_longer_than_other_statements(watched: Database, connection: Connection) -> None:
    await connection.execute(
        """CREATE TABLE public.noted AS SELECT current_setting('statement_timeout') AS timeout WHERE false;
           CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS $$
           BEGIN
               INSERT INTO public.noted SELECT current_setting('statement_timeout');
               RETURN NULL;
           END $$;
           CREATE TRIGGER note AFTER INSERT ON dispatcher.clusters EXECUTE FUNCTION public.note()"""
    )
    await connection.execute(PROMOTED)
    await watched.check_cluster()
    assert await connection.fetchval("SELECT timeout FROM public.noted") == "1h"
    assert await watched.value("SELECT current_setting('statement_timeout')") == "30s"


async def test_a_clock_that_was_ahead_hides_nothing(watched: Database, connection: Connection) -> None:
    """By the other server's clock it was due, and was created, when by ours it is not yet."""
    scene = await Scene.open(watched)
    (due,) = await scene.write(1, scheduled_for=datetime.now(UTC) + timedelta(seconds=50))
    await connection.execute(
        """ALTER TABLE dispatcher.deliveries DISABLE TRIGGER deliveries_never_change;
           UPDATE dispatcher.deliveries SET created_at = created_at + interval '40 seconds'"""
    )
    await connection.execute(PROMOTED)
    await watched.check_cluster()
    assert await scene.life(due) == "held"


async def test_a_claimed_delivery_may_have_been_sent_whatever_its_due_time(watched: Database) -> None:
    scene = await Scene.open(watched)
    await scene.write(1)
    (item,) = await scene.claim()
    await scene.database.fetch("UPDATE dispatcher.delivery_state SET run_at = now() + interval '1 day'")
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    assert await held.to_quarantine(watched, tomorrow) == QuarantineCounts(1, 0)
    assert await held.quarantine(watched, tomorrow, "ann", "restored") == QuarantineCounts(1, 0)
    assert await scene.life(item.id) == "held"


async def test_a_place_that_comes_with_data_is_not_taken_for_ours(watched: Database, connection: Connection) -> None:
    await connection.execute("INSERT INTO dispatcher.clusters SELECT now(), 1, 1, 1, 1")
    await _cut(watched)
    assert await _again(watched) == []
    await connection.execute("ALTER TABLE dispatcher.clusters DISABLE TRIGGER ALL")
    await connection.execute("INSERT INTO dispatcher.clusters SELECT now(), 1, 1, 1, 1")
    await _cut(watched)
    assert await _again(watched) == ["cluster.changed"]
    assert await watched.value("SELECT count(*) FROM dispatcher.clusters") == 1


async def test_a_copy_within_the_server_is_another_place(server: str, url: str) -> None:
    """`CREATE DATABASE … TEMPLATE`: everything that is due there is due in its origin too."""
    name = urlsplit(url).path[1:]
    origin = Database(Settings(), url)
    await origin.open()
    await origin.watch()
    scene = await Scene.open(origin)
    (due,) = await scene.write(1)
    await origin.close()
    admin = await asyncpg.connect(server)
    try:
        await admin.execute(f"CREATE DATABASE {name}_copy TEMPLATE {name}")
    finally:
        await admin.close()
    copy = Database(Settings(), url.replace(name, f"{name}_copy"))
    await copy.open()
    try:
        await copy.watch()
        assert await Scene(copy).life(due) == "held"
    finally:
        await copy.close()


async def test_the_second_instance_waits_and_holds_no_newer_deliveries(
    watched: Database, database: Database, connection: Connection
) -> None:
    scene = await Scene.open(database)
    await connection.execute(PROMOTED)
    async with connection.transaction():
        assert await connection.fetchval("SELECT dispatcher.see_cluster()") == 0
        looking = asyncio.create_task(watched.check_cluster())
        await until_blocked(connection)
        (new,) = await scene.write(1)
    await looking
    assert await scene.life(new) == "pending"


async def test_two_may_be_the_first_at_the_same_time(database: Database, connection: Connection) -> None:
    async with connection.transaction():
        assert await connection.fetchval("SELECT dispatcher.see_cluster()") is None
        looking = asyncio.create_task(database.watch())
        await until_blocked(connection)
    await looking
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.clusters") == 1
