"""Fixtures of the tests of the protocol: a whole pipeline on a pool that can be spoilt."""

from collections.abc import AsyncIterator

import pytest

from tests.engine.stage import Stage
from tests.engine.troubled import Troubled


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
