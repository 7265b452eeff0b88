"""The array types of Postgres, which asyncpg otherwise asks the server about on each new connection.

One question takes 5 ms of the server and is asked up to three times a connection. The numbers are the same on every
server: they are part of Postgres' own catalog.
"""

from typing import Any

# By the type of the elements: its number, and that of its arrays. asyncpg knows text[] and oid[] by itself.
ARRAYS = {
    "bool": (16, 1000),
    "bytea": (17, 1001),
    "int8": (20, 1016),
    "int2": (21, 1005),
    "int4": (23, 1007),
    "float4": (700, 1021),
    "float8": (701, 1022),
    "timestamptz": (1184, 1185),
    "interval": (1186, 1187),
    "json": (114, 199),
    "jsonb": (3802, 3807),
}
_NOTHING_ELSE = dict.fromkeys(("range_subtype", "attrtypoids", "basetype"))
# As asyncpg describes types to itself.
_DESCRIBED = [
    {"oid": array, "ns": "pg_catalog", "name": f"_{name}", "elemtype": element, "elemdelim": ",", **_NOTHING_ELSE}
    for name, (element, array) in ARRAYS.items()
]


def set_array_types(connection: Any) -> None:  # noqa: ANN401 - the pool's connection carries no types of ours
    """Tell a connection what its arrays are. Call it after the codecs of elements are set: an array keeps its own."""
    connection.get_settings().register_data_types(_DESCRIBED)
