"""Through a real pgbouncer in transaction mode: kills, wake-ups, tenants, and configurations that cannot work."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import asyncpg
import pytest

from tests.conformance.outbox import PATIENT, QUICK, Outbox
from tests.faults.provider import Provider
from tests.support.caller import Caller, delivery, make_key
from tests.support.deployed import Campaigns
from tests.support.pgbouncer import SERVER_CONNECTIONS, Pgbouncer, keeps_statements, why_not
from tests.support.program import Program
from tests.support.waits import until

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "it is there")

UNUSABLE = 2
# They take over half a second: longer than the longest pause before its last look.
QUIET_LOOKS = 50
IGNORED = ("enable_seqscan", "enable_hashjoin", "enable_mergejoin", "jit_above_cost", "timezone", "statement_timeout")
# What the clients of a session before could leave in it.
LEFT = """
    SELECT current_user AS role, coalesce(current_setting('dispatcher.tenant', true), '') AS tenant,
           coalesce(current_setting('dispatcher.workspace', true), '') AS workspace,
           current_setting('enable_seqscan') AS seqscan, current_setting('enable_hashjoin') AS hashjoin,
           current_setting('jit') AS jit, current_setting('statement_timeout') AS statement_timeout,
           current_setting('synchronous_commit') AS synchronous_commit, current_setting('lock_timeout') AS lock_timeout,
           (SELECT count(*) FROM pg_prepared_statements) AS prepared,
           (SELECT count(*) FROM pg_listening_channels()) AS listening,
           (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()) AS locks,
           pg_backend_pid() AS pid, pg_sleep(0.05)
"""


@pytest.fixture
async def pgbouncer(url: str) -> AsyncIterator[Pgbouncer]:
    """A pooler before the test's database."""
    async with Pgbouncer(url) as pgbouncer:
        yield pgbouncer


@pytest.fixture
async def pooled(pgbouncer: Pgbouncer, url: str) -> AsyncIterator[Program]:
    """The program behind this pooler, with a direct connection to listen."""
    program = Program(pgbouncer.url, DISPATCHER_DATABASE__LISTEN_URL=url)
    try:
        yield program
    finally:
        program.end()


def _was_away(program: Program, since: int) -> bool:
    """Whether it noticed after so many other times; one kill may be noticed twice."""
    return len(program.events("database.away")) > since


async def _sessions(url: str, number: int = 2 * SERVER_CONNECTIONS) -> list[dict[str, object]]:
    """What another client finds in this many sessions."""

    async def look() -> dict[str, object]:
        connection = await asyncpg.connect(url, statement_cache_size=0)
        try:
            (row,) = await connection.fetch(LEFT)
            return dict(row)
        finally:
            await connection.close()

    return await asyncio.gather(*(look() for _ in range(number)))


async def test_OB_12_kills_of_the_pooler_and_of_the_dispatcher_lose_and_double_nothing(
    pgbouncer: Pgbouncer, pooled: Program, outbox: Outbox, tmp_path: Path
) -> None:
    async with Provider(tmp_path / "books", "--delay-ms-max", "20") as provider:
        settings = {"PROVIDER": "ledger", "OPTIONS__PORT": str(provider.port), "MARKED_MAX": "20"}
        environment = QUICK | {f"DISPATCHER_CHANNELS__SMS__{name}": text for name, text in settings.items()}
        await pooled.start(**environment)
        ids = await outbox.fill(400)
        for sent in (100, 200):
            await outbox.until_count(sent, "sent")
            noticed = len(pooled.events("database.away"))
            pgbouncer.kill()
            await pooled.until(partial(_was_away, pooled, noticed), "it notices")
            await pgbouncer.start()
        await outbox.until_count(250, "sent")
        await pooled.kill()
        await pooled.start(**environment)

        async def settled() -> bool:
            return await outbox.count("sent") + await outbox.count("held") == len(ids)

        await until(settled, "each is sent, or held since its owner died during the call")
        books = provider.entries()
        names = [(await outbox.row(number))["idempotency_key"] for number in ids if await outbox.life(number) == "sent"]
        assert {books[key].accepted for key in names} == {1}
        assert {entry.accepted for entry in books.values()} == {1}
        assert await outbox.count("held") <= 20
    assert pooled.metric("dispatcher_restarts_total") == 0
    assert pooled.run("check").returncode == 0


async def test_OB_10_through_a_pooler_an_insert_is_still_heard_at_once(pooled: Program, outbox: Outbox) -> None:
    """It polls every ten minutes: only a notification explains that anything leaves."""
    await pooled.start(**PATIENT)
    seen = deque[float](maxlen=QUIET_LOOKS)

    def sleeps() -> bool:
        seen.append(pooled.metric("dispatcher_claim_seconds_count"))
        return len(seen) == QUIET_LOOKS and len(set(seen)) == 1

    await until(sleeps, "it has looked for the last time")
    await outbox.until_life(await outbox.put(), "sent")


async def test_CA_01_a_campaign_is_expanded_sent_and_closed_through_a_pooler(pooled: Program, outbox: Outbox) -> None:
    await pooled.start(**QUICK)
    run = await Campaigns(outbox.connection).deployed(5)

    async def completed() -> bool:
        status = "SELECT status = 'completed' FROM dispatcher.campaign_runs WHERE id = $1"
        return bool(await outbox.connection.fetchval(status, run))

    await until(completed, "each of them was sent, and the run is closed")
    assert await outbox.connection.fetchval("SELECT count(*) FROM dispatcher.captured_messages") == 5


async def test_OP_02_clients_of_a_pooler_see_their_own_workspace_and_leave_nothing_in_its_sessions(
    pgbouncer: Pgbouncer, pooled: Program, outbox: Outbox
) -> None:
    await pooled.start()
    places = [("default", "default"), ("default", "other"), ("acme", "default")]
    callers = [Caller(pooled, make_key(pooled, tenant=tenant, workspace=workspace)) for tenant, workspace in places]

    async def use(number: int) -> None:
        caller, (tenant, workspace) = callers[number % 3], places[number % 3]
        key = f"{tenant}-{workspace}-{number}"
        assert (await asyncio.to_thread(caller.post, "/deliveries", delivery(key))).status == 201
        seen = (await asyncio.to_thread(caller.get, "/deliveries?limit=100")).json["deliveries"]
        assert {one["idempotency_key"].rpartition("-")[0] for one in seen} == {f"{tenant}-{workspace}"}

    await asyncio.gather(*(use(number) for number in range(45)))
    await outbox.until_count(45, "sent")
    sessions = await _sessions(pgbouncer.url)
    assert len({session.pop("pid") for session in sessions}) == SERVER_CONNECTIONS
    (fresh,) = await _sessions(pooled.environment["DISPATCHER_DATABASE__LISTEN_URL"], 1)
    del fresh["pid"]
    assert sessions == [fresh] * len(sessions)


@pytest.mark.parametrize("command", [("serve",), ("serve", "--migrate"), ("migrate",), ("held", "list")])
async def test_a_pooler_without_listen_url_is_a_fault_of_the_configuration(
    pgbouncer: Pgbouncer, command: tuple[str, ...]
) -> None:
    ended = Program(pgbouncer.url).run(*command, DISPATCHER_LOG__LEVEL="error")
    assert ended.returncode == UNUSABLE, ended.stderr
    assert ended.stderr.decode().count("database.listen_url: must be a URL of Postgres itself") == 1
    assert b"Traceback" not in ended.stderr
    assert b"ExceptionGroup" not in ended.stderr


async def test_a_pooler_that_ignores_our_settings_needs_listen_url_too(url: str) -> None:
    async with Pgbouncer(url, f"ignore_startup_parameters = {','.join(IGNORED)}") as pgbouncer:
        ended = Program(pgbouncer.url).run("serve")
    assert ended.returncode == UNUSABLE, ended.stderr
    assert b"it ignores startup parameters" in ended.stderr


@pytest.mark.parametrize("elsewhere", [False, True], ids=["the pooler again", "another database"])
async def test_listen_url_leads_directly_to_the_same_database(
    pgbouncer: Pgbouncer, url: str, server: str, elsewhere: bool
) -> None:
    past = server if elsewhere else pgbouncer.url
    ended = Program(pgbouncer.url, DISPATCHER_DATABASE__LISTEN_URL=past).run("serve")
    assert ended.returncode == UNUSABLE, ended.stderr
    words = "leads to another server or database" if elsewhere else "must be a URL of Postgres itself"
    assert ended.stderr.decode().count(words) == 1


PREPARES = {"DISPATCHER_DATABASE__POOLER_PREPARES": "true"}


@pytest.mark.skipif(not keeps_statements(), reason="expected: Debian 12 has pgbouncer 1.18, and 1.21 is needed")
async def test_statements_are_prepared_where_the_pooler_supports_it(url: str, outbox: Outbox) -> None:
    async with Pgbouncer(url, "max_prepared_statements = 200") as pgbouncer:
        pooled = Program(pgbouncer.url, DISPATCHER_DATABASE__LISTEN_URL=url, **PREPARES)
        try:
            await pooled.start()
            await outbox.fill(100)
            await outbox.until_count(100, "sent")
            assert any(session["prepared"] for session in await _sessions(pgbouncer.url))
        finally:
            pooled.end()


async def test_prepared_statements_are_refused_where_the_pooler_does_not_support_them(url: str) -> None:
    """Two clients may give the same name: one would execute the statement of the other."""
    async with Pgbouncer(url, "max_prepared_statements = 0" if keeps_statements() else "") as pgbouncer:
        ended = Program(pgbouncer.url, DISPATCHER_DATABASE__LISTEN_URL=url, **PREPARES).run("serve")
    assert ended.returncode == UNUSABLE, ended.stderr
    assert ended.stderr.decode().count("database.pooler_prepares: must be false: the pooler does not support") == 1
