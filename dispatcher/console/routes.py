"""The console's routes: every page behind a session, its assets, and the way in."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from urllib.parse import parse_qsl

import structlog
from litestar import HttpMethod
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler
from litestar.response.base import ASGIResponse
from litestar.types import ASGIApp, Receive, Scope, Send
from msgspec import structs

from dispatcher.base.errors import CallLost
from dispatcher.config.settings import Config
from dispatcher.console import assets, navigation, origin, sessions
from dispatcher.console.overview.board import Boards
from dispatcher.console.overview.stream import Streams
from dispatcher.console.page import Page, discovered
from dispatcher.console.rendering import environment
from dispatcher.console.sign_in import SignIn
from dispatcher.console.visit import HEADERS, ROOT, Answer, Visit, cookie
from dispatcher.db.database import PASSING
from dispatcher.http.problems import (
    BROKEN,
    FAULTY,
    FORBIDDEN,
    SLOW,
    TIMED_OUT,
    TOO_LARGE,
    UNAUTHENTICATED,
    UNAVAILABLE,
    Problem,
)
from dispatcher.http.roles import Right, may, roles_with
from dispatcher.http.server.routes import UNCOMPRESSED
from dispatcher.http.server.scopes import decode_name
from dispatcher.http.server.serving import AnyRequest, Serving, request_id, routed

log = structlog.get_logger(__name__)

# Of a form: a template with all its languages fits.
FORM_BYTES_MAX = 1024 * 1024
FORM_FIELDS_MAX = 500
YEAR_SECONDS = 365 * 24 * 3600


class _Response:
    """An answer as an ASGI application."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        answer = self._answer
        fields = {
            "content-type": answer.media_type,
            "content-length": str(len(answer.body)),
            **HEADERS,
            **answer.headers,
        }
        headers = [(name.encode(), value.encode("latin-1", "replace")) for name, value in fields.items()]
        headers += [(b"set-cookie", one.encode()) for one in answer.cookies]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body, "more_body": False})


class Console:
    """The console of one process."""

    def __init__(self, serving: Serving, config: Callable[[], Config]) -> None:
        self._serving = serving
        self._config = config
        self.sign_in = SignIn(serving.admission)
        self._boards = Boards(serving.ask)
        self._streams = Streams()
        self._pages = discovered()
        self._served = {page.path: page for page in self._pages}

    def handlers(self) -> list[HTTPRouteHandler]:
        """Return the routes."""
        return [
            *self._page_handlers(),
            _handler(f"{assets.PATH}/{{name:str}}", _asset),
            _handler(f"{ROOT}/signin", self._sign_in, HttpMethod.POST),
            _handler(f"{ROOT}/enter/{{link:str}}", self._enter),
            _handler(f"{ROOT}/live", self._live, streams=True),
            _handler(f"{ROOT}/signout", self._sign_out, HttpMethod.POST, get=False),
        ]

    def _page_handlers(self) -> Iterator[HTTPRouteHandler]:
        """Yield the routes of pages: one for all that are only looked at, and one for those that act too."""
        served = {ROOT + page.path.rstrip("/"): page for page in self._pages}

        async def respond(request: AnyRequest) -> ASGIApp:
            return _Response(await self._answered(served[request.scope["path_template"]], request))

        for acts in (False, True):
            paths = [routed(path) for path, page in served.items() if (page.act is not None) is acts]
            yield _handler(paths, respond, *([HttpMethod.POST] if acts else []))

    async def _answered(self, page: Page, request: AnyRequest) -> Answer:
        called = request_id(request)
        visit: Visit | None = None
        problem = Problem(BROKEN, f"it is in the log as {called}")
        try:
            async with asyncio.timeout(self._config().api.request_seconds_max):
                visit = await self._visit(page, request)
                return _unflashed(visit, await self._visited(page, visit, request))
        except Problem as found:
            problem = found
        except TimeoutError:
            problem = Problem(SLOW, "it may have been done, or may be done yet")
        except CallLost:
            problem = Problem(SLOW, "nothing was done")
        except PASSING as trouble:
            log.warning("console.unavailable", request_id=called, page=page.path, error=type(trouble).__name__)
            problem = Problem(UNAVAILABLE, "please try again in a moment")
        except Exception:
            log.exception("console.failed", request_id=called, page=page.path)
        if problem.kind is UNAUTHENTICATED:
            return self.sign_in.sent(request, problem)
        return _problem(visit, problem, called)

    async def _visited(self, page: Page, visit: Visit, request: AnyRequest) -> Answer:
        if page.right is not None and not visit.may(page.right):
            roles = " or ".join(role.value for role in roles_with(page.right))
            words = f"the key {visit.key.name} is a {visit.key.role.value}; this page takes a {roles}"
            raise Problem(FORBIDDEN, words)
        if request.method == "POST" and page.act is not None:
            return await page.act(await self._form(visit, request))
        return await page.show(visit)

    async def _visit(self, page: Page, request: AnyRequest) -> Visit:
        key, session = await self.sign_in.session(request)
        flash = request.cookies.get(sessions.FLASH_COOKIE)
        asked = tuple(request.query_params.multi_items()) if request.scope["query_string"] else ()
        return Visit(
            key=key,
            session=session,
            config=self._config,
            asking=self._serving.ask,
            board=self._boards.of(key),
            at=str(request.scope["path"]).removeprefix(ROOT),
            section=page.section,
            groups=list(navigation.visible(key.role, self._served)),
            path={name: decode_name(text) for name, text in request.path_params.items()},
            query={name: text for name, text in asked if "\0" not in text},
            asked=asked,
            flash=None if flash is None else sessions.read_flash(flash, key.hash, time.time()),
            https=origin.is_https(request.headers),
        )

    async def _form(self, visit: Visit, request: AnyRequest) -> Visit:
        """Return the visit with what its form says. Raises Problem unless it comes from a page of this session."""
        origin.require_own(request.headers)
        fields = dict(await read_fields(request))
        if not sessions.verify_form(fields.pop("token", ""), visit.session, visit.key.hash):
            raise Problem(FORBIDDEN, "the form is not of this session: open the page again, and repeat it")
        return structs.replace(visit, form=fields)

    async def _sign_in(self, request: AnyRequest) -> ASGIApp:
        if request.method == "GET":
            return _Response(await self.sign_in.page(request))
        return _Response(await self.sign_in.enter(request, read_fields))

    async def _enter(self, request: AnyRequest) -> ASGIApp:
        return _Response(self.sign_in.by_link(request, request.path_params["link"]))

    async def _live(self, request: AnyRequest) -> ASGIApp:
        try:
            key, _ = await self.sign_in.session(request)
        except Problem as problem:
            return _Response(Answer(b"", problem.kind.status))
        if not may(key.role, Right.LOGS):
            return _Response(Answer(b"", FORBIDDEN.status))
        return self._streams.stream(self._boards.of(key), waits="waits" in request.query_params)

    async def _sign_out(self, request: AnyRequest) -> ASGIApp:
        try:
            key, session = await self.sign_in.session(request)
            origin.require_own(request.headers)
            fields = dict(await read_fields(request))
        except Problem:
            return _Response(Answer(b"", 303, headers={"location": f"{ROOT}/signin"}))
        cookies = []
        if sessions.verify_form(fields.get("token", ""), session, key.hash):
            log.info("console.signed_out", key=key.name)
            cookies = [cookie(sessions.COOKIE, "", 0, https=origin.is_https(request.headers))]
        return _Response(Answer(b"", 303, headers={"location": f"{ROOT}/signin"}, cookies=cookies))


def _handler(
    path: str | list[str],
    respond: Callable[[AnyRequest], Awaitable[ASGIApp]],
    *more: HttpMethod,
    get: bool = True,
    streams: bool = False,
) -> HTTPRouteHandler:
    # Litestar would make a handler of its own for the OPTIONS of each path.
    methods = [*([HttpMethod.GET] if get else []), HttpMethod.OPTIONS, *more]

    async def handle(request: AnyRequest) -> ASGIApp:
        if request.method == HttpMethod.OPTIONS:
            return ASGIResponse(status_code=204, headers={"allow": ", ".join(methods)})
        return await respond(request)

    return HTTPRouteHandler(
        path, http_method=methods, status_code=200, request_max_body_size=None, opt={UNCOMPRESSED: streams}
    )(handle)


async def _asset(request: AnyRequest) -> ASGIApp:
    found = assets.by_name().get(request.path_params["name"])
    if found is None:
        return _Response(Answer(b"There is no such file.", 404, "text/plain; charset=utf-8"))
    kept = {"cache-control": f"public, max-age={YEAR_SECONDS}, immutable"}
    return _Response(Answer(found.content, media_type=found.media_type, headers=kept))


def _unflashed(visit: Visit, answer: Answer) -> Answer:
    """Take the message away that a page has shown."""
    if visit.flash is None or answer.status >= 300:  # noqa: PLR2004 - a redirect shows nothing
        return answer
    gone = cookie(sessions.FLASH_COOKIE, "", 0, https=visit.https)
    return Answer(answer.body, answer.status, answer.media_type, answer.headers, (*answer.cookies, gone))


def _problem(visit: Visit | None, problem: Problem, called: str) -> Answer:
    """Return the page of a problem: with the navigation, if we know who asks."""
    if visit is not None:
        return visit.show("_problem.html", problem=problem, called=called, status=problem.kind.status)
    drawn = environment().get_template("_stranger.html").render(problem=problem, called=called)
    return Answer(drawn.encode(), problem.kind.status)


async def read_fields(request: AnyRequest) -> list[tuple[str, str]]:
    """Return the fields of a form. Raises Problem."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Problem(FAULTY, "the body has to be a form")
    chunks, size = [], 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > FORM_BYTES_MAX:
                raise Problem(TOO_LARGE, f"the form is over {FORM_BYTES_MAX} bytes", headers={"connection": "close"})
            chunks.append(chunk)
        text = b"".join(chunks).decode("ascii")
        found = parse_qsl(
            text, keep_blank_values=True, strict_parsing=False, max_num_fields=FORM_FIELDS_MAX, errors="strict"
        )
    except HTTPException as fault:
        raise Problem(TIMED_OUT, "the form ended in the middle") from fault
    except ValueError as fault:
        raise Problem(FAULTY, "the form cannot be read") from fault
    if any("\0" in text for pair in found for text in pair):
        raise Problem(FAULTY, "the form has a NUL character, which Postgres cannot keep")
    return found
