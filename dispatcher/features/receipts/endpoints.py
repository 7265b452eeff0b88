"""Receipts over HTTP: signed requests of providers about deliveries."""

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence

import asyncpg
import msgspec
import structlog
from litestar import Request, Response, post
from litestar.datastructures import State
from litestar.exceptions import ClientException, InternalServerException
from litestar.exceptions.http_exceptions import RequestEntityTooLarge
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from msgspec import Struct

from dispatcher.base.metrics import Metrics
from dispatcher.db.database import PASSING, Database
from dispatcher.features.receipts import store
from dispatcher.features.receipts.providers.receipt import Identity
from dispatcher.features.receipts.providers.request import Accepted, Forged, Garbled, Providers
from dispatcher.features.receipts.providers.request import Request as PostedReceipt
from dispatcher.http.server.public_bodies import PublicBodies

log = structlog.get_logger(__name__)

PATH = "/receipts/"
# The largest request is an SNS message with the headers of a mail.
BODY_BYTES_MAX = 256 * 1024
# Written at a time: a flood of receipts leaves the other connections of the pool to the deliveries.
AT_ONCE_MAX = 2
RETRY_SECONDS = "30"
# Unsigned requests can come from anywhere: all are counted, some are logged.
FORGED_LOGGED_SECONDS = 10.0
HEADERS = {"cache-control": "no-store"}

# Any error of Postgres: the schema may be missing, too.
TROUBLE: tuple[type[Exception], ...] = (*PASSING, asyncpg.PostgresError)

_TITLES = {
    400: "It cannot be understood",
    401: "It is not signed by anybody who may",
    404: "There is nobody here of this name",
    408: "Its body took too long",
    413: "It is too large",
    503: "Not now",
}


class ReceiptContext(Struct, frozen=True):
    """The dependencies of the receipt endpoint."""

    providers: Callable[[], Providers]
    database: Callable[[], Database]
    identity: Identity
    metrics: Metrics
    now: Callable[[], float] = time.time


def receipt_handlers(context: ReceiptContext) -> list[HTTPRouteHandler]:
    """Return the routes. A provider without configuration is answered with 404."""
    writing = asyncio.Semaphore(AT_ONCE_MAX)
    bodies = PublicBodies()
    logged: dict[str, float] = {}

    @post(PATH + "{provider:str}", request_max_body_size=BODY_BYTES_MAX)
    async def receive(request: Request[object, object, State], provider: FromPath[str]) -> Response[bytes]:
        read = context.providers().get(provider)
        if read is None:
            return _problem(404)
        body = await _body(request, bodies)
        if isinstance(body, int):
            return _problem(body)
        query = request.scope["query_string"].decode("ascii", "replace")
        headers = {name.lower(): value for name, value in request.headers.items()}
        match read(PostedReceipt(headers, query, body, context.now())):
            case Forged(why=why):
                context.metrics.receipts.labels(provider, "forged").inc()
                if abs(context.now() - logged.get(provider, -math.inf)) >= FORGED_LOGGED_SECONDS:
                    logged[provider] = context.now()
                    log.warning("receipt.forged", provider=provider, why=why)
                return _problem(401)
            case Garbled(why=why):
                context.metrics.receipts.labels(provider, "garbled").inc()
                log.warning("receipt.garbled", provider=provider)
                return _problem(400, why)
            case Accepted() as accepted:
                async with writing:
                    return await _store(context, provider, accepted)

    return [receive]


async def _body(request: Request[object, object, State], bodies: PublicBodies) -> bytes | int:
    """Return the body, or the status of the refusal."""
    try:
        async with bodies.body():
            return await request.body()
    except TimeoutError:
        return 408
    except RequestEntityTooLarge:
        return 413
    except (ClientException, InternalServerException):
        # The latter: the sender has closed the connection.
        return 400


async def _store(context: ReceiptContext, provider: str, accepted: Accepted) -> Response[bytes]:
    if accepted.confirm:
        log.warning("receipts.confirm", provider=provider, url=accepted.confirm)
    try:
        outcome: Sequence[str] = await store.accept(context.database(), provider, accepted, context.identity)
    except TROUBLE as trouble:
        log.warning("receipts.failed", provider=provider, error=type(trouble).__name__)
        return _problem(503, headers={"retry-after": RETRY_SECONDS})
    for one in outcome or ["ignored"]:
        context.metrics.receipts.labels(provider, one).inc()
    return Response(b"", status_code=204, headers=HEADERS)


def _problem(status: int, detail: str = "", headers: Mapping[str, str] | None = None) -> Response[bytes]:
    """Return a problem document (RFC 9457)."""
    said = {"type": "about:blank", "title": _TITLES[status], "status": status} | ({"detail": detail} if detail else {})
    return Response(
        msgspec.json.encode(said),
        status_code=status,
        media_type="application/problem+json",
        headers=HEADERS | dict(headers or {}),
    )
