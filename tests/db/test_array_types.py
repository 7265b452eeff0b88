"""Array types: known without asking the server, and as the server has them."""

import pytest

from dispatcher.db.array_types import ARRAYS
from dispatcher.db.database import Database


async def test_the_server_has_the_same_numbers(database: Database) -> None:
    rows = await database.fetch(
        "SELECT typname::text, oid::bigint, typarray::bigint FROM pg_type"
        " WHERE typnamespace = 'pg_catalog'::regnamespace AND typname::text = ANY ($1::text[])",
        list(ARRAYS),
    )
    assert {name: (element, array) for name, element, array in rows} == ARRAYS


@pytest.mark.parametrize("name", [*ARRAYS, "text"])
async def test_an_array_is_read_and_written_without_a_question_about_its_type(database: Database, name: str) -> None:
    asked: list[str] = []
    async with database.session() as connection:
        with connection.query_logger(lambda record: asked.append(record.query)):
            statement = f"SELECT $1::{name}[]"
            assert await connection.fetchval(statement, [None]) == [None]
    assert asked == [statement]
