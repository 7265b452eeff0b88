"""OB-12 in small: Postgres goes away under a busy dispatcher and comes back, and nothing is lost, doubled or held."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from tests.conformance.outbox import Outbox, once
from tests.support.program import Program
from tests.support.scene import Connection

BLACKHOLE = {"DISPATCHER_CHANNELS__SMS__PROVIDER": "blackhole"}
SESSIONS = "application_name LIKE 'dispatcher%' AND datname = current_database()"


@asynccontextmanager
async def no_new_connections(connection: Connection, server: str) -> AsyncIterator[None]:
    """The database lets nobody in, and whoever was in is thrown out."""
    name = await connection.fetchval("SELECT current_database()")
    admin = await asyncpg.connect(server)
    try:
        await admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        await connection.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {SESSIONS}")
        yield
    finally:
        await admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        await admin.close()


async def test_OB_12_sessions_that_are_cut_again_and_again_lose_and_double_nothing(
    program: Program, outbox: Outbox
) -> None:
    await program.start()
    ids = await outbox.fill(3_000)
    for _ in range(5):
        await outbox.connection.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {SESSIONS}")
        more = await outbox.fill(200)
        ids += more
    await outbox.until_count(len(ids) - await outbox.count("held"), "sent")
    assert once(await outbox.captured())


@pytest.mark.parametrize("channel", ["sms"])
async def test_OB_12_while_nobody_is_let_in_nothing_is_lost_and_nothing_is_held(
    program: Program, outbox: Outbox, server: str, channel: str
) -> None:
    await program.start(**BLACKHOLE)
    ids = await outbox.fill(2_000, channel)
    async with no_new_connections(outbox.connection, server):
        ids += await outbox.fill(500, channel)
        await program.until(lambda: program.get("/readyz")[0] == 503, "it says that it is not ready")
        await program.until(
            lambda: program.metric("dispatcher_database_away_seconds") > 1.5, "it has been away for a while"
        )
        assert program.get("/healthz")[0] == 200
    await outbox.until_count(len(ids), "sent")
    await program.until(lambda: program.get("/readyz")[0] == 200, "it is ready again")
    assert await outbox.count("held") == 0
    assert program.metric("dispatcher_restarts_total", part="pipeline") == 0
