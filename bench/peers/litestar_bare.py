"""A bare Litestar handler as a peer: it reads the same body into a model, does one INSERT, and answers the id.

`python -m bench.peers.litestar_bare URL PORT`: one process, one pool as large as ours.
"""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import msgspec
import uvicorn
from litestar import Litestar, post
from msgspec import Struct

CONNECTIONS = 10
TABLES = """
CREATE TABLE bare (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key text NOT NULL UNIQUE,
                   created_at timestamptz NOT NULL DEFAULT now(), body jsonb NOT NULL)
"""
_ONE = "INSERT INTO bare (key, body) VALUES ($1, $2) RETURNING id"
_MANY = "INSERT INTO bare (key, body) SELECT * FROM unnest($1::text[], $2::jsonb[]) RETURNING id"


class Trigger(Struct):
    """The body of our request."""

    input: dict[str, Any]
    idempotency_key: str


class Delivery(Struct):
    """One of many."""

    idempotency_key: str
    channel: str
    recipient: str
    template: dict[str, str]
    variables: dict[str, Any]


class Deliveries(Struct):
    """Many."""

    deliveries: list[Delivery]


def application(url: str) -> Litestar:
    """Two handlers."""
    pools: list[Any] = []

    @asynccontextmanager
    async def life(_app: Litestar) -> AsyncIterator[None]:
        async with asyncpg.create_pool(url, min_size=CONNECTIONS, max_size=CONNECTIONS) as pool:
            await pool.execute(TABLES)
            pools.append(pool)
            yield

    @post("/triggers")
    async def one(data: Trigger) -> dict[str, int]:
        return {"id": await pools[0].fetchval(_ONE, data.idempotency_key, msgspec.json.encode(data.input).decode())}

    @post("/deliveries")
    async def many(data: Deliveries) -> dict[str, list[int]]:
        keys = [one.idempotency_key for one in data.deliveries]
        rows = await pools[0].fetch(_MANY, keys, [msgspec.json.encode(one).decode() for one in data.deliveries])
        return {"ids": [row[0] for row in rows]}

    return Litestar([one, many], lifespan=[life], openapi_config=None, logging_config=None)


if __name__ == "__main__":
    uvicorn.run(application(sys.argv[1]), port=int(sys.argv[2]), log_level="error", access_log=False)
