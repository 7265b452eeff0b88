"""What the tests of planners share: a stage."""

from collections.abc import AsyncIterator

import pytest

from dispatcher import faultpoints
from dispatcher.store.database import Database
from tests.planners.stage import Stage
from tests.store.scene import Scene


@pytest.fixture
async def stage(database: Database) -> AsyncIterator[Stage]:
    """A walker on the test's database. No fault outlives its test."""
    try:
        yield Stage(await Scene.open(database))
    finally:
        faultpoints.arm({})
