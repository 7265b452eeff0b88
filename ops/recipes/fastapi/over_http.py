"""A shop with FastAPI that shares no database with the dispatcher: it asks over HTTP.

Once:

    dispatcher workflows put ops/recipes/order_confirmed.yaml --activate
    dispatcher keys create shop --role triggerOperator --reason 'the web shop'

Then, with the packages fastapi, uvicorn and dispatcher:

    export DISPATCHER_URL=https://dispatcher.example.org DISPATCHER_KEY=dsp_…
    uvicorn --app-dir ops/recipes/fastapi over_http:app
    curl localhost:8000/orders/17/confirmation -X PUT -H 'Content-Type: application/json' \
        -d '{"email": "ann@example.org", "name": "Ann"}'
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from dispatcher.client import Client, ClientError, Refused, WaitTimedOut

# A customer waits no longer than this for an answer; what was asked for goes on.
PATIENCE_SECONDS = 5.0


class Customer(BaseModel):
    """The customer of an order."""

    email: str
    name: str | None = None


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """One client, for as long as the application runs: it keeps its connections."""
    async with Client(os.environ["DISPATCHER_URL"], os.environ["DISPATCHER_KEY"], timeout=PATIENCE_SECONDS) as client:
        app.state.dispatcher = client
        yield


app = FastAPI(lifespan=lifespan)


def dispatcher_of(request: Request) -> Client:
    """The application's client."""
    client: Client = request.app.state.dispatcher
    return client


Dispatcher = Annotated[Client, Depends(dispatcher_of)]


@app.put("/orders/{number}/confirmation")
async def confirm(number: int, customer: Customer, dispatcher: Dispatcher) -> dict[str, Any]:
    """Confirm an order. The key is the order's: however often somebody clicks, one mail goes out."""
    order = {"id": number, **customer.model_dump(exclude_none=True)}
    run = await dispatcher.trigger("order_confirmed", {"order": order}, key=f"order-{number}")
    try:
        ended = await dispatcher.wait(run.id, timeout=PATIENCE_SECONDS, poll=0.2)
    except WaitTimedOut:
        return {"run": run.id, "confirmation": "under way"}
    if ended.error is not None:
        raise HTTPException(502, f"the order could not be confirmed: {ended.error}")
    return {"run": run.id, "confirmation": ended.status}


@app.exception_handler(ClientError)
async def not_done(_: Request, error: Exception) -> Response:
    """Answer with the faults of a refusal; all other errors may pass."""
    if isinstance(error, Refused):
        return JSONResponse({"detail": str(error), "faults": {one.path: one.message for one in error.faults}}, 422)
    again = getattr(error, "retry_after", None) or PATIENCE_SECONDS
    return JSONResponse({"detail": "please try again"}, 503, {"Retry-After": str(int(again))})
