"""The plan that a statement of the store gets for good, with what it did."""

from tests.support.scene import Connection

Asked = tuple[str, tuple[object, ...]]


def literal(value: object) -> str:
    """A value as SQL writes it."""
    match value:
        case None:
            return "NULL"
        case list() | tuple():
            return "'{" + ",".join(literal(one).strip("'") for one in value) + "}'"
        case str():
            return f"'{value}'"
        case _:
            return str(value)


async def explained(session: Connection, asked: Asked) -> str:
    """The plan that a prepared statement gets for good, with what it did."""
    query, arguments = asked
    types = ", ".join(kind.name for kind in (await session.prepare(query)).get_parameters())
    await session.execute("SET plan_cache_mode = force_generic_plan")
    await session.execute(f"PREPARE asked ({types}) AS {query}")
    values = ", ".join(map(literal, arguments))
    lines = await session.fetch(f"EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) EXECUTE asked ({values})")
    return "\n".join(line[0] for line in lines)
