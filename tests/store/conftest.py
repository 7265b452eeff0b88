"""What the tests of the store share: a scene."""

import pytest

from dispatcher.store.database import Database
from tests.store.scene import Scene


@pytest.fixture
async def scene(database: Database) -> Scene:
    """An epoch on the test's database."""
    return await Scene.open(database)
