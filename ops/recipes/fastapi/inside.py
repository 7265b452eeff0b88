"""A shop with FastAPI whose orders and their confirmations are one transaction, over asyncpg.

Once, as the owner of the dispatcher's schema:

    psql "$DISPATCHER_DATABASE_URL" --file ops/recipes/sql/grants.sql
    dispatcher workflows put ops/recipes/order_confirmed.yaml --activate

Then, with the packages fastapi, uvicorn and dispatcher:

    export SHOP_DATABASE_URL=postgresql://shop@localhost/NAME
    uvicorn --app-dir ops/recipes/fastapi inside:app
    curl localhost:8000/orders -H 'Content-Type: application/json' -d '{"email": "ann@example.org", "name": "Ann"}'
    curl localhost:8000/orders/1
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import asyncpg
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from dispatcher.client import Client, Refused

TABLE = """
    CREATE TABLE IF NOT EXISTS orders (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, email text NOT NULL, name text NOT NULL, run_id bigint)
"""


class NewOrder(BaseModel):
    """An order of a customer. Without a name it cannot be confirmed, and is not placed."""

    email: str
    name: str | None = None


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """One pool, for as long as the application runs."""
    async with asyncpg.create_pool(os.environ["SHOP_DATABASE_URL"], min_size=1, max_size=5) as pool:
        await pool.execute(TABLE)
        app.state.pool = pool
        yield


app = FastAPI(lifespan=lifespan)


async def connected(request: Request) -> AsyncIterator[Any]:
    """A connection of the pool's, for one request."""
    async with request.app.state.pool.acquire() as connection:
        yield connection


Connection = Annotated[Any, Depends(connected)]


@app.post("/orders", status_code=201)
async def place(new: NewOrder, connection: Connection) -> dict[str, Any]:
    """Place an order. It and the run that confirms it are committed together, or neither is."""
    async with connection.transaction():
        number = await connection.fetchval(
            "INSERT INTO orders (email, name) VALUES ($1, $2) RETURNING id", new.email, new.name or ""
        )
        order = {"id": number, **new.model_dump(exclude_none=True)}
        # What it raises ends the transaction, and the order with it.
        run = await Client.on(connection, actor="the shop").trigger(
            "order_confirmed", {"order": order}, key=f"order-{number}"
        )
        await connection.execute("UPDATE orders SET run_id = $2 WHERE id = $1", number, run.id)
    return {"id": number, "run": run.id}


@app.get("/orders/{number}")
async def show(number: int, connection: Connection) -> dict[str, Any]:
    """An order, and how far its confirmation is."""
    run = await connection.fetchval("SELECT run_id FROM orders WHERE id = $1", number)
    if run is None:
        raise HTTPException(404)
    return {"id": number, "confirmation": (await Client.on(connection).status(run)).status}


@app.exception_handler(Refused)
async def refused(_: Request, refusal: Exception) -> Response:
    """Answer with the faults of a refusal."""
    faults = refusal.faults if isinstance(refusal, Refused) else ()
    return JSONResponse({"detail": str(refusal), "faults": {one.path: one.message for one in faults}}, 422)
