"""The routes of unsubscribe links: GET shows a page and changes nothing, POST unsubscribes (RFC 8058)."""

from collections.abc import Callable, Sequence
from urllib.parse import parse_qsl

import asyncpg
import structlog
from litestar import HttpMethod, MediaType, Request, Response, post, route
from litestar.datastructures import State
from litestar.exceptions import ClientException
from litestar.exceptions.http_exceptions import RequestEntityTooLarge
from litestar.handlers import HTTPRouteHandler

from dispatcher.db import cells
from dispatcher.db.cells import TenantElsewhere
from dispatcher.db.database import PASSING, Database
from dispatcher.engine.rules.unsubscribe_links import PATH, Links, Subscription
from dispatcher.engine.store import suppression
from dispatcher.features.suppressions import store
from dispatcher.features.suppressions import unsubscribe_page as page
from dispatcher.features.suppressions.passing_on import HEADER, pass_on
from dispatcher.features.suppressions.store import Entry
from dispatcher.http.server.public_bodies import PublicBodies

log = structlog.get_logger(__name__)

# Mail programs and our page send one field; multipart adds some 200 bytes.
BODY_BYTES_MAX = 4_096
FIELDS_MAX = 8
RETRY_SECONDS = "30"
ACTOR = "recipient"
WHY = "the link in a message"
# The field that mail programs send by RFC 8058, and those of our page.
ONE_CLICK = ("List-Unsubscribe", "One-Click")
FROM_TOPIC = ("from", "topic")
FROM_EVERYTHING = ("from", "everything")
# Addresses whose queued deliveries are skipped within the request; the suppressor does the rest.
CATCH_UP = 100

# Also that the schema is missing.
DATABASE_ERRORS: tuple[type[Exception], ...] = (*PASSING, asyncpg.PostgresError)

HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": f"default-src 'none'; style-src '{page.STYLE_HASH}'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-robots-tag": "noindex",
}

Fields = Sequence[tuple[str, str]]


def unsubscribe_routes(links: Callable[[], Links | None], database: Callable[[], Database]) -> list[HTTPRouteHandler]:
    """Return the routes. They answer 404 where no links are configured."""
    bodies = PublicBodies()

    def read(token: str) -> Subscription | None:
        made = links()
        return None if made is None else made.read(token)

    @route(PATH + "{token:str}", http_method=[HttpMethod.GET, HttpMethod.HEAD], sync_to_thread=False)
    def show(token: str) -> Response[str]:
        one = read(token)
        return _answer(404, page.invalid_link()) if one is None else _answer(200, page.confirmation(one))

    @post(PATH + "{token:str}", request_max_body_size=BODY_BYTES_MAX)
    async def unsubscribe(request: Request[object, object, State], token: str) -> Response[str]:
        one = read(token)
        if one is None:
            return _answer(404, page.invalid_link())
        try:
            async with bodies.body():
                fields = await _fields(request)
        except TimeoutError:
            return _answer(408, page.unavailable())
        if ONE_CLICK in fields or (FROM_TOPIC in fields and one.topic is not None):
            topic = one.topic
        elif FROM_EVERYTHING in fields:
            topic = None
        else:
            return _answer(400, page.confirmation(one))
        try:
            await _unsubscribe(database(), one, topic)
        except TenantElsewhere as elsewhere:
            if HEADER in request.headers or not await pass_on(cells.where(elsewhere).url, token, fields):
                log.warning("unsubscribe.not_passed_on", tenant_id=one.tenant_id, cell=cells.where(elsewhere).cell)
                return _answer(503, page.unavailable(), {"retry-after": RETRY_SECONDS})
        except DATABASE_ERRORS as trouble:
            log.warning("unsubscribe.failed", error=type(trouble).__name__)
            return _answer(503, page.unavailable(), {"retry-after": RETRY_SECONDS})
        return _answer(200, page.done(one, topic))

    return [show, unsubscribe]


def _answer(status: int, text: str, more: dict[str, str] | None = None) -> Response[str]:
    return Response(text, status_code=status, media_type=MediaType.HTML, headers=HEADERS | (more or {}))


async def _fields(request: Request[object, object, State]) -> Fields:
    """The fields of a form in either of its two encodings; none if the body is not a form."""
    try:
        if request.content_type[0] == "multipart/form-data":
            return [(name, value) for name, value in (await request.form()).multi_items() if isinstance(value, str)]
        return parse_qsl((await request.body()).decode("ascii"), max_num_fields=FIELDS_MAX)
    except RequestEntityTooLarge:
        raise
    except (ValueError, ClientException):
        return []


async def _unsubscribe(database: Database, one: Subscription, topic: str | None) -> None:
    """Write it down first, then skip what is queued, at once if that is little."""
    await cells.require_here(database, one.tenant_id)
    if topic is None:
        await store.add(database, one.tenant_id, ACTOR, [Entry(one.contact, "unsubscribe", WHY)])
    else:
        await store.prefer(database, one.tenant_id, [one.contact], topic, False, ACTOR, WHY)
    await suppression.catch_up(database, CATCH_UP)
