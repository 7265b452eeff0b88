"""Every endpoint refuses the key of a tenant that is not in this cell, whatever it is asked for."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from dispatcher.config.settings import Database as Settings
from dispatcher.db.database import Database
from dispatcher.endpoints import ENDPOINTS
from dispatcher.features.keys import store as keys
from dispatcher.http.roles import Role
from tests.features.cells.test_placements import NUMBER, place
from tests.http.test_isolation import application
from tests.support.home import HOME, Home, call, furnish, seen
from tests.support.scene import Connection

CODES = {"elsewhere": 421, "leaving": 503, "arriving": 503}


@pytest.fixture(scope="module")
async def cell(shared_url: str) -> AsyncIterator[tuple[Connection, Home, dict[str, str]]]:
    """A cell in which there is something of everything of one tenant, also keys: each is known for a second."""
    connection = await asyncpg.connect(shared_url)
    try:
        home = await furnish(connection)
        await connection.execute("SELECT dispatcher.join_cells($1::smallint)", NUMBER)
        async with Database(Settings(pool_max=4), shared_url) as database:
            made = {
                state: await keys.create(database, HOME, state, Role.SYSTEM_ADMIN, None, by=("test", "test"))
                for state in CODES
            }
        yield connection, home, {state: key.text for state, key in made.items() if key is not None}
    finally:
        await connection.close()


@pytest.mark.parametrize(("version", "state"), list(enumerate(CODES, 1)))
async def test_each_refuses_it_and_changes_nothing(
    cell: tuple[Connection, Home, dict[str, str]], shared_url: str, version: int, state: str
) -> None:
    connection, home, shown = cell
    await place(connection, HOME.tenant_id, state, version)
    async with Database(Settings(pool_max=4), shared_url) as database:
        before = await seen(connection)
        app = application().on(database, "operators/operators")
        answers = {one.operation: await call(app, shown[state], home.ask(one)) for one in ENDPOINTS}
        assert {name for name, answer in answers.items() if answer.status != CODES[state]} == set()
        assert all(b"cell" in answer.body for answer in answers.values())
        assert await seen(connection) == before
