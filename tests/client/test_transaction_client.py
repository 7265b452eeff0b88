"""The client inside a transaction: what goes with the transaction, and what leaves it as it was."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from dispatcher.client import (
    Client,
    Conflict,
    Forbidden,
    Message,
    NotFound,
    Refused,
    TimedOut,
    TransactionClient,
    Unexpected,
)
from dispatcher.client.sql_errors import error_of
from tests.conformance.runs import Running
from tests.support.scene import Connection

COUNT = """SELECT (SELECT count(*) FROM dispatcher.runs WHERE idempotency_key = $1)
                + (SELECT count(*) FROM dispatcher.deliveries WHERE idempotency_key = $1)"""


def _message(key: str, **fields: Any) -> Message:
    return Message(**{"key": key, "channel": "sms", "to": "+4917012345", "body": "Hello", **fields})


@pytest.fixture
def key() -> str:
    """A key of a test's own."""
    return uuid4().hex


@pytest.fixture
def watcher(place: Running) -> Connection:
    """Another connection, which sees what is committed."""
    return place.runs.connection


@pytest.fixture
async def orders(application: Connection) -> AsyncIterator[None]:
    """A table of the application's own."""
    await application.execute("CREATE TEMPORARY TABLE orders (id integer)")
    yield
    await application.execute("DROP TABLE orders")


async def test_a_deployment_is_rolled_back_with_its_transaction(
    application: Connection, inside: TransactionClient, watcher: Connection, key: str
) -> None:
    await watcher.execute(
        """SELECT dispatcher.put_templates('[{"tenant_id": "default", "workspace_id": "default", "name": "t",
               "channel": "sms", "default_locale": "en", "rights": [], "variables": [],
               "sources": {"en": {"parts": {"body": "x"}, "partials": {}}}}]', true, 'test');
           SELECT dispatcher.put_contact('default', 'default', 'c', '{}', 'put', NULL, 'test');
           SELECT dispatcher.put_campaign('default', 'default', 'c', '{"channel": "sms", "template_name": "t",
               "variables": {}, "audience": {"all": true}, "lane": 2}', 'test')"""
    )
    transaction = application.transaction()
    await transaction.start()
    deployed = await inside.deploy_campaign("c", key=key)
    assert (deployed.intended, deployed.duplicate) == (1, False)
    assert (await inside.deploy_campaign("c", key=key)).duplicate
    await transaction.rollback()
    assert await watcher.fetchval("SELECT count(*) FROM dispatcher.campaign_runs WHERE idempotency_key = $1", key) == 0


async def test_writes_are_visible_inside_their_transaction_and_roll_back_with_it(
    application: Connection, inside: TransactionClient, watcher: Connection, key: str
) -> None:
    transaction = application.transaction()
    await transaction.start()
    run = await inside.trigger("paying", key=key)
    sent = await inside.send(_message(key))
    await inside.signal(run.id, "paid", {"amount": 1})
    assert (await inside.status(run.id)).status == "pending"
    assert (await inside.delivery(key)).id == sent.id
    assert await watcher.fetchval(COUNT, key) == 0
    await transaction.rollback()
    with pytest.raises(NotFound):
        await inside.status(run.id)
    assert await watcher.fetchval(COUNT, key) == 0
    assert not (await inside.trigger("paying", key=key)).duplicate


@pytest.mark.usefixtures("orders")
async def test_a_refusal_leaves_the_transaction_as_it_was(
    application: Connection, inside: TransactionClient, watcher: Connection, key: str
) -> None:
    async with application.transaction():
        await application.execute("INSERT INTO orders VALUES (17)")
        for refused in (
            inside.trigger("strict"),
            inside.send(_message(key, lane="fast")),
            inside.send([_message(key), _message(uuid4().hex, lane="fast")]),
        ):
            with pytest.raises(Refused):
                await refused
        with pytest.raises(NotFound):
            await inside.trigger("nowhere")
        with pytest.raises(NotFound):
            await inside.delivery(key)
        run = await inside.trigger("greeting", key=key)
    assert await application.fetchval("SELECT count(*) FROM orders") == 1
    assert await watcher.fetchval(COUNT, key) == 1
    assert (await inside.wait(run.id, timeout=30, poll=0.02)).status == "completed"


async def test_a_run_is_not_waited_for_inside(application: Connection, inside: TransactionClient) -> None:
    async with application.transaction():
        run = await inside.trigger("greeting")
        with pytest.raises(Conflict, match="when its transaction is over"):
            await inside.wait(run.id)
        assert (await inside.status(run.id)).status == "pending"


async def test_a_lock_timeout_is_raised_and_the_transaction_goes_on(
    application: Connection, inside: TransactionClient, watcher: Connection
) -> None:
    run = (await inside.trigger("paying")).id
    held = watcher.transaction()
    await held.start()
    try:
        await watcher.execute("SELECT FROM dispatcher.runs WHERE id = $1 FOR UPDATE", run)
        async with application.transaction():
            with pytest.raises(TimedOut):
                await Client.on(application, timeout=0.1).cancel(run, reason="a test")
            assert not (await inside.status(run)).ended
    finally:
        await held.rollback()


@pytest.mark.parametrize("turns", [*range(12), *range(20, 400, 20)])
@pytest.mark.parametrize("lanes", [("bulk",), ("bulk", "bulk"), ("bulk", "fast")])
async def test_a_call_that_is_cancelled_leaves_no_transaction_behind(
    application: Connection,
    inside: TransactionClient,
    watcher: Connection,
    key: str,
    lanes: tuple[str, ...],
    turns: int,
) -> None:
    # One that nobody knows of would take in whatever is sent later, and never be committed.
    some = [_message(f"{key}-{number}", lane=lane) for number, lane in enumerate(lanes)]
    call = asyncio.ensure_future(inside.send(some))
    for _ in range(turns):
        await asyncio.sleep(0)
    call.cancel()
    with suppress(asyncio.CancelledError, Refused):
        await call
    assert not application.is_in_transaction()
    await inside.send(_message(key))
    assert await watcher.fetchval(COUNT, key) == 1
    written = "SELECT count(*) FROM dispatcher.deliveries WHERE starts_with(idempotency_key, $1 || '-')"
    assert await watcher.fetchval(written, key) in (0, len(some) if "fast" not in lanes else 0)


async def test_a_key_acts_in_its_workspace_under_its_name(
    application: Connection, inside: TransactionClient, key: str
) -> None:
    run = await Client.on(application, actor="the shop").trigger("greeting", key=key)
    assert (await inside.status(run.id)).triggered_by == "the shop"
    sent = await inside.send(_message(key))
    elsewhere = Client.on(application, tenant="acme", workspace="shop")
    for call in (elsewhere.status(run.id), elsewhere.delivery(sent.id), elsewhere.delivery(key)):
        with pytest.raises(NotFound):
            await call
    theirs = await elsewhere.send(_message(key))
    assert (theirs.duplicate, theirs.id != sent.id) == (False, True)


async def test_codecs_of_the_application_are_left_alone(shared_url: str, place: Running, key: str) -> None:
    async with asyncpg.create_pool(shared_url, min_size=1, max_size=1) as pool, pool.acquire() as connection:
        for kind in ("json", "jsonb"):
            await connection.set_type_codec(kind, schema="pg_catalog", encoder=json.dumps, decoder=json.loads)
        inside = Client.on(connection)
        run = await inside.trigger("greeting", {"a": [1]}, key=key)
        assert (await inside.status(run.id)).input == {"a": [1]}
        await inside.send([_message(key, variables={"a": 1})])
        kept = await connection.fetchval("SELECT variables FROM dispatcher.deliveries WHERE idempotency_key = $1", key)
        assert kept == {"a": 1}


async def test_a_role_without_the_right_is_refused(place: Running, shared_url: str) -> None:
    role = f"nobody_{uuid4().hex[:8]}"
    await place.runs.connection.execute(f"CREATE ROLE {role}; GRANT USAGE ON SCHEMA dispatcher TO {role}")
    connection = await asyncpg.connect(shared_url)
    try:
        await connection.execute(f"SET ROLE {role}")
        with pytest.raises(Forbidden, match="permission denied"):
            await Client.on(connection).trigger("greeting")
    finally:
        await connection.close()


async def test_a_database_without_the_functions_is_told_from_a_bad_call(empty_url: str) -> None:
    connection = await asyncpg.connect(empty_url)
    try:
        with pytest.raises(Unexpected) as missing:
            await Client.on(connection).trigger("greeting")
        assert missing.value.kind == "schema-behind"
    finally:
        await connection.close()


async def test_errors_of_the_transaction_are_raised_unchanged(
    application: Connection, inside: TransactionClient
) -> None:
    transaction = application.transaction()
    await transaction.start()
    with pytest.raises(asyncpg.DivisionByZeroError):
        await application.execute("SELECT 1 / 0")
    with pytest.raises(asyncpg.InFailedSQLTransactionError):
        await inside.trigger("greeting")
    await transaction.rollback()
    assert error_of(asyncpg.SerializationError("40001")) is None
    assert error_of(asyncpg.ConnectionDoesNotExistError("gone")) is None
    assert error_of(asyncpg.LockNotAvailableError("locked")) is None


async def test_two_at_once_with_a_key_have_one_run(
    shared_url: str, inside: TransactionClient, place: Running, key: str
) -> None:
    others = [await asyncpg.connect(shared_url) for _ in range(4)]
    try:
        found = await asyncio.gather(*(Client.on(one).trigger("greeting", key=key) for one in others))
    finally:
        for one in others:
            await one.close()
    assert len({run.id for run in found}) == 1
    assert sorted(run.duplicate for run in found) == [False, True, True, True]
