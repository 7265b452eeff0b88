"""What the tests of the store share: a scene, and somebody else beside it."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from dispatcher.store.database import Database
from tests.store.scene import Connection, Scene


@pytest.fixture
async def scene(database: Database) -> Scene:
    """An epoch on the test's database."""
    return await Scene.open(database)


@pytest.fixture
async def rival(url: str) -> AsyncIterator[Connection]:
    """Another session."""
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()
