"""Receipts over HTTP: what providers post about deliveries, each by a door that lets only the signed in."""

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
from dispatcher.features.receipts.providers import request as door
from dispatcher.features.receipts.providers.receipt import Identity
from dispatcher.features.receipts.providers.request import Doors, Forged, Garbled, Heard
from dispatcher.http.server.public_bodies import PublicBodies

log = structlog.get_logger(__name__)

PATH = "/receipts/"
# The largest that a provider sends is an SNS message, with a mail's headers in it.
BODY_BYTES_MAX = 256 * 1024
# Written at a time: a flood of receipts leaves the other connections of the pool to the deliveries.
AT_ONCE_MAX = 2
RETRY_SECONDS = "30"
# Anybody can post what is not signed: the counter counts it, and the log says why now and then.
FORGED_LOGGED_SECONDS = 10.0
HEADERS = {"cache-control": "no-store"}

# Also before the schema is there.
TROUBLE: tuple[type[Exception], ...] = (*PASSING, asyncpg.PostgresError)

_TITLES = {
    400: "It cannot be understood",
    401: "It is not signed by anybody who may",
    404: "There is nobody here of this name",
    408: "Its body took too long",
    413: "It is too large",
    503: "Not now",
}


class Office(Struct, frozen=True):
    """What receipts are received with."""

    doors: Callable[[], Doors]
    database: Callable[[], Database]
    identity: Identity
    metrics: Metrics
    now: Callable[[], float] = time.time


def receiving(office: Office) -> list[HTTPRouteHandler]:
    """The routes. A provider that nothing is configured of is not there."""
    turn = asyncio.Semaphore(AT_ONCE_MAX)
    bodies = PublicBodies()
    logged: dict[str, float] = {}

    @post(PATH + "{provider:str}", request_max_body_size=BODY_BYTES_MAX)
    async def receive(request: Request[object, object, State], provider: FromPath[str]) -> Response[bytes]:
        opened = office.doors().get(provider)
        if opened is None:
            return _problem(404)
        body = await _body(request, bodies)
        if isinstance(body, int):
            return _problem(body)
        query = request.scope["query_string"].decode("ascii", "replace")
        match opened(door.Request(_headers(request), query, body, office.now())):
            case Forged(why=why):
                office.metrics.receipts.labels(provider, "forged").inc()
                if abs(office.now() - logged.get(provider, -math.inf)) >= FORGED_LOGGED_SECONDS:
                    logged[provider] = office.now()
                    log.warning("receipt.forged", provider=provider, why=why)
                return _problem(401)
            case Garbled(why=why):
                office.metrics.receipts.labels(provider, "garbled").inc()
                log.warning("receipt.garbled", provider=provider)
                return _problem(400, why)
            case Heard() as heard:
                async with turn:
                    return await _keep(office, provider, heard)

    return [receive]


async def _body(request: Request[object, object, State], bodies: PublicBodies) -> bytes | int:
    """What was posted, or the status that says why it is not read."""
    try:
        async with bodies.body():
            return await request.body()
    except TimeoutError:
        return 408
    except RequestEntityTooLarge:
        return 413
    except (ClientException, InternalServerException):
        # The latter is how somebody who hangs up in the middle looks.
        return 400


def _headers(request: Request[object, object, State]) -> Mapping[str, str]:
    return {name.lower(): value for name, value in request.headers.items()}


async def _keep(office: Office, provider: str, heard: Heard) -> Response[bytes]:
    if heard.confirm:
        log.warning("receipts.confirm", provider=provider, url=heard.confirm)
    try:
        became: Sequence[str] = await store.hear(office.database(), provider, heard, office.identity)
    except TROUBLE as trouble:
        log.warning("receipts.failed", provider=provider, error=type(trouble).__name__)
        return _problem(503, headers={"retry-after": RETRY_SECONDS})
    for one in became or ["ignored"]:
        office.metrics.receipts.labels(provider, one).inc()
    return Response(b"", status_code=204, headers=HEADERS)


def _problem(status: int, detail: str = "", headers: Mapping[str, str] | None = None) -> Response[bytes]:
    """A problem document (RFC 9457)."""
    said = {"type": "about:blank", "title": _TITLES[status], "status": status} | ({"detail": detail} if detail else {})
    return Response(
        msgspec.json.encode(said),
        status_code=status,
        media_type="application/problem+json",
        headers=HEADERS | dict(headers or {}),
    )
