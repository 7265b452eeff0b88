"""Literals of arrays: Postgres reads them as it reads the arrays that the driver encodes."""

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatcher.db.database import Database
from dispatcher.db.literals import array

# What the syntax of arrays is made of, beside what else Postgres takes in a text.
TEXTS = st.text(
    st.sampled_from("\"\\{},' \n\tNULnul") | st.characters(exclude_categories=["Cs"], exclude_characters="\0")
)
INTEGERS = st.integers(-(2**63), 2**63 - 1)


# Examples follow each other on one database, which none of them changes.
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(TEXTS) | st.lists(TEXTS | st.none()),
    numbers=st.lists(INTEGERS) | st.lists(INTEGERS | st.none()),
)
async def test_a_literal_is_read_as_the_array_is(
    database: Database, texts: list[str | None], numbers: list[int | None]
) -> None:
    query = "SELECT $1::text::text[], $2::text::bigint[], $3::text[], $4::bigint[]"
    (row,) = await database.fetch(query, array(texts), array(numbers), texts, numbers)
    assert list(row) == [texts, numbers] * 2


@pytest.mark.parametrize("texts", [["a\0b"], ["a\0b", "c"], ["a", None, "\0"], ["\0", "\0"]])
async def test_a_text_with_a_nul_is_refused_as_the_driver_s_array_is(database: Database, texts: list[str]) -> None:
    for query, sent in (("SELECT $1::text::text[]", array(texts)), ("SELECT $1::text[]", texts)):
        with pytest.raises(asyncpg.CharacterNotInRepertoireError):
            await database.fetch(query, sent)
