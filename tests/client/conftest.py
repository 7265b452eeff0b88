"""Fixtures of the tests of the client: a program at work, workflows of its own, and both clients to it."""

from collections.abc import AsyncIterator, Mapping
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from dispatcher.client import AnyClient, Client, TransactionClient
from tests.client.workflows import WORKFLOWS
from tests.conformance.runs import Running, running
from tests.support.caller import make_key
from tests.support.scene import Connection

# What an application needs, and all that it gets.
GRANTS = """
    GRANT USAGE ON SCHEMA dispatcher TO {role};
    GRANT EXECUTE ON FUNCTION dispatcher.trigger_workflow, dispatcher.enqueue_delivery, dispatcher.signal_run,
        dispatcher.cancel_run, dispatcher.run_status, dispatcher.delivery_status, dispatcher.cancel_delivery,
        dispatcher.enrol, dispatcher.contact_event, dispatcher.deploy_campaign,
        dispatcher.notify_events, dispatcher.note_fallback TO {role};
"""
# One channel on which nothing arrives.
BROKEN: Mapping[str, str] = {"DISPATCHER_CHANNELS__PUSH__FAULTS__REFUSE": "1.0"}


@pytest.fixture(scope="module")
async def place(shared_url: str) -> AsyncIterator[Running]:
    """A program at work, with its workflows."""
    async with running(shared_url, BROKEN) as found:
        for definition in WORKFLOWS:
            await found.runs.put(definition)
        yield found


@pytest.fixture(scope="module")
async def application(place: Running, shared_url: str) -> AsyncIterator[Connection]:
    """A connection as an application has one: its role owns nothing."""
    role = f"application_{uuid4().hex[:8]}"
    await place.runs.connection.execute(f"CREATE ROLE {role};" + GRANTS.format(role=role))
    connection = await asyncpg.connect(shared_url)
    try:
        await connection.execute(f"SET ROLE {role}")
        yield connection
    finally:
        await connection.close()


@pytest.fixture(scope="module")
async def http(place: Running) -> AsyncIterator[Client]:
    """The client over HTTP."""
    async with Client(place.program.address, make_key(place.program)) as client:
        yield client


@pytest.fixture(scope="module")
def inside(application: Connection) -> TransactionClient:
    """The client over a connection."""
    return Client.on(application)


@pytest.fixture(params=["http", "inside"])
def client(request: pytest.FixtureRequest) -> Any:
    """Either client."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def other(client: AnyClient, http: Client, inside: TransactionClient) -> AnyClient:
    """The other one."""
    return inside if client is http else http
