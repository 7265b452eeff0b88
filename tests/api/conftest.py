"""What the tests of the API share: a program with keys, and a workflow to trigger."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.api.caller import Caller, make_key
from tests.program import Program
from tests.store import flows
from tests.store.scene import Connection


@pytest.fixture(scope="module")
async def admin(serving: Program) -> Caller:
    """An administrator of the default workspace, on a program that the tests of a module share."""
    return Caller(serving, make_key(serving))


@pytest.fixture
async def inside(serving: Program) -> AsyncIterator[Connection]:
    """A look into the shared program's database, in which there is a workflow `welcome`."""
    connection = await asyncpg.connect(serving.url)
    try:
        await flows.put(connection)
        yield connection
    finally:
        await connection.close()
