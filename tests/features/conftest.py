"""Fixtures of the tests of planners: a stage."""

from collections.abc import AsyncIterator

import pytest

from dispatcher.base import fault_points
from dispatcher.db.database import Database
from tests.features.runs.stage import Stage
from tests.support.scene import Scene


@pytest.fixture
async def stage(database: Database) -> AsyncIterator[Stage]:
    """A walker on the test's database. No fault outlives its test."""
    try:
        yield Stage(await Scene.open(database))
    finally:
        fault_points.arm({})
