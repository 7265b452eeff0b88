"""Fixtures of the tests of the actors: the program's pool, spoilt on demand, and a stage on it."""

from collections.abc import AsyncIterator

import pytest

from tests.engine.stage import Stage
from tests.engine.troubled import Troubled


@pytest.fixture
async def troubled(url: str) -> AsyncIterator[Troubled]:
    """The pool."""
    database = Troubled(url)
    await database.open()
    try:
        yield database
    finally:
        for close in database.belongings:
            close()
        await database.close()


@pytest.fixture
async def stage(troubled: Troubled) -> Stage:
    """A stage with one channel and no limits."""
    return Stage(troubled)
