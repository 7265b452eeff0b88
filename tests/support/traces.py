"""Traces: where in the schema a text stands, in whichever column of whichever table."""

from tests.support.scene import Connection

COLUMNS = """
SELECT c.relname, a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
 WHERE c.relnamespace = 'dispatcher'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
 ORDER BY 1, 2
"""


async def traces(connection: Connection, *texts: str) -> list[str]:
    """Every column that has one of these texts in it, in any case of letters."""
    found = []
    for table, column in await connection.fetch(COLUMNS):
        # Bytes show as they are where they are ASCII.
        said = (
            f"coalesce(lower(t.{column}::text), '') || CASE WHEN pg_typeof(t.{column}) = 'bytea'::regtype THEN "
            f"lower(encode(t.{column}::text::bytea, 'escape')) ELSE '' END"
        )
        query = f"SELECT count(*) FROM dispatcher.{table} t, unnest($1::text[]) x WHERE strpos({said}, lower(x)) > 0"
        if await connection.fetchval(query, list(texts)):
            found.append(f"{table}.{column}")
    return found
