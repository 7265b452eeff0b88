"""What the tests of campaigns share: a stage."""

import pytest

from dispatcher.db.database import Database
from tests.features.campaigns.stage import Stage


@pytest.fixture
async def campaigns(database: Database) -> Stage:
    """A template on the test's database, and an epoch that expands."""
    return await Stage.open(database)
