"""What the tests of the protocol share: an epoch by hand, and a whole pipeline on a pool that can be spoilt."""

from collections.abc import AsyncIterator

import pytest

from dispatcher.store.database import Database
from tests.actors.stage import Stage
from tests.actors.troubled import Troubled
from tests.store.scene import Scene


@pytest.fixture
async def scene(database: Database) -> Scene:
    """An epoch on the test's database."""
    return await Scene.open(database)


@pytest.fixture
async def stage(url: str) -> AsyncIterator[Stage]:
    """A pipeline with one channel and no limits."""
    database = Troubled(url)
    await database.open()
    try:
        yield Stage(database)
    finally:
        for close in database.belongings:
            close()
        await database.close()
