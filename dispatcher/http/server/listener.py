"""The HTTP listener: metrics, probes, and the pages that it is given (the recipients' pages and the API)."""

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from typing import cast
from uuid import uuid4

import anyio
import structlog
import uvicorn
from litestar import HttpMethod, Litestar, MediaType, Response, get, route
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler
from uvicorn._types import (
    ASGI3Application,
    ASGIReceiveCallable,
    ASGIReceiveEvent,
    ASGISendCallable,
    ASGISendEvent,
    Scope,
)

from dispatcher.base.errors import ListenerError
from dispatcher.base.health import Health
from dispatcher.base.series import CONTENT_TYPE, Registry
from dispatcher.base.version import VERSION
from dispatcher.config.settings import Http as Settings
from dispatcher.http.problems import CROWDED, MEDIA_TYPE, Problem
from dispatcher.http.server.connections import KEEP_ALIVE_SECONDS, SWEEP_SECONDS, Connection
from dispatcher.http.server.front_page import front_page
from dispatcher.http.server.routes import compression, cors, http_error, internal_error
from dispatcher.http.server.scopes import corrected

log = structlog.get_logger(__name__)

REQUESTS_AT_ONCE_MAX = 300
# These are answered however many other requests are served.
PROBES = frozenset(("/healthz", "/readyz", "/metrics"))
RETRY_SECONDS = b"1"
STAGING_HEADER = b"dispatcher-staging"
# For the requests that are being served, after the listener has stopped accepting.
END_SECONDS_MAX = 5.0
# As often as the date of answers changes.
TICK_SECONDS = 1.0


def application(
    health: Health,
    registry: Registry,
    measure: Callable[[], None],
    pages: Sequence[HTTPRouteHandler] = (),
    allow_origins: str = "",
) -> Litestar:
    """Return the routes. `measure` updates the gauges before they are read."""
    # Some load balancers send HEAD.
    looks = [HttpMethod.GET, HttpMethod.HEAD]

    cell: dict[str, object] = {"cell": health.cell, "version": VERSION} if health.cell else {}

    @route("/healthz", http_method=looks, media_type=MediaType.JSON, sync_to_thread=False)
    def healthz() -> Response[dict[str, object]]:
        alive = health.alive()
        return Response({"alive": alive}, status_code=200 if alive else 503)

    @route("/readyz", http_method=looks, media_type=MediaType.JSON, sync_to_thread=False)
    def readyz() -> Response[dict[str, object]]:
        reasons = health.unready()
        return Response(
            {"ready": not reasons, "reasons": reasons, "warnings": health.warnings()} | cell,
            status_code=503 if reasons else 200,
        )

    @get("/metrics", sync_to_thread=False)
    def metrics() -> Response[bytes]:
        measure()
        return Response(registry.text(), media_type=CONTENT_TYPE)

    served = [healthz, readyz, metrics, *pages]
    return Litestar(
        [front_page(served, lambda: health.staging), *served],
        openapi_config=None,
        logging_config=None,
        cors_config=cors(allow_origins),
        compression_config=compression(),
        exception_handlers={HTTPException: http_error, Exception: internal_error},
    )


# Told of each answer: its status, and the seconds until it began.
Answered = Callable[[int, float], None]


class Gate:
    """Serves so many requests at a time, and closes a connection with an unread body."""

    def __init__(
        self,
        app: ASGI3Application,
        requests_max: int = REQUESTS_AT_ONCE_MAX,
        is_staging: Callable[[], bool] = lambda: False,
        answered: Answered = lambda _status, _seconds: None,
    ) -> None:
        self._app = app
        self._requests_max = requests_max
        self._is_staging = is_staging
        self._answered = answered
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"{scope['type']} is not served here")
        if self._is_staging():
            send = _saying_staging(send)
        if scope["path"] not in PROBES:
            send = _counting(send, self._answered)
        if self._under_way >= self._requests_max and scope["path"] not in PROBES:
            await _send_crowded(send)
            return
        self._under_way += 1
        try:
            if any(name == b"expect" for name, _ in scope["headers"]):
                receive, send = _closing_unless_read(receive, send)
            await self._app(scope, receive, send)
        finally:
            self._under_way -= 1


def _counting(send: ASGISendCallable, answered: Answered) -> ASGISendCallable:
    """Tell of the answer as it begins: its end may be a watcher's, hours later."""
    began = time.monotonic()

    async def sending(message: ASGISendEvent) -> None:
        if message["type"] == "http.response.start":
            answered(message["status"], time.monotonic() - began)
        await send(message)

    return sending


def _saying_staging(send: ASGISendCallable) -> ASGISendCallable:
    """Say with each answer that only chosen recipients get messages."""

    async def sending(message: ASGISendEvent) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], (STAGING_HEADER, b"true")]
        await send(message)

    return sending


async def _send_crowded(send: ASGISendCallable) -> None:
    called = uuid4().hex
    body = Problem(CROWDED, "please try again").document(called)
    headers = [
        (b"content-type", MEDIA_TYPE.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"retry-after", RETRY_SECONDS),
        (b"x-request-id", called.encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": CROWDED.status, "headers": headers, "trailers": False})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def _closing_unless_read(
    receive: ASGIReceiveCallable, send: ASGISendCallable
) -> tuple[ASGIReceiveCallable, ASGISendCallable]:
    """Close a connection whose caller waits for `100 Continue` in vain: it may send its body next, or a request."""
    asked = False

    async def receiving() -> ASGIReceiveEvent:
        nonlocal asked
        asked = True
        return await receive()

    async def sending(message: ASGISendEvent) -> None:
        if message["type"] == "http.response.start" and not asked:
            message["headers"] = [*message["headers"], (b"connection", b"close")]
        await send(message)

    return receiving, sending


class _Server(uvicorn.Server):
    """A server that leaves signals to the application, and is idle: uvicorn's own ticks ten times a second."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ending = asyncio.Event()

    def end(self) -> None:
        """Serve no more, and finish what was begun."""
        self.should_exit = True
        self._ending.set()

    async def main_loop(self) -> None:
        # The first of its ten ticks sets the date of answers.
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), TICK_SECONDS)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _sweep(server: uvicorn.Server) -> None:
    while True:
        await asyncio.sleep(SWEEP_SECONDS)
        now = time.monotonic()
        for one in list(server.server_state.connections):
            if isinstance(one, Connection):
                one.sweep(now)


class Listener:
    """Serves until it is cancelled, then finishes what it has begun. `address` is set once it serves."""

    def __init__(
        self,
        app: Litestar,
        settings: Settings,
        is_staging: Callable[[], bool] = lambda: False,
        answered: Answered = lambda _status, _seconds: None,
    ) -> None:
        class Ours(Connection):
            head_seconds_max = settings.head_seconds_max
            connections_max = settings.connections_max

        self._settings = settings
        self._config = uvicorn.Config(
            Gate(cast("ASGI3Application", corrected(app)), is_staging=is_staging, answered=answered),
            http=Ours,
            ws="none",
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_keep_alive=int(KEEP_ALIVE_SECONDS),
            server_header=False,
        )
        self.address: str | None = None
        self._bound: socket.socket | None = None

    def bind(self) -> None:
        """Take the address, for `run`. Raises ListenerError where another process has it."""
        # Not left to uvicorn, which leaves the process when it cannot bind.
        if self._bound is None:
            self._bound = _bind(self._settings)

    def release(self) -> None:
        """Give the address back."""
        if self._bound is not None:
            self._bound.close()
        self._bound = None

    async def run(self) -> None:
        """Serve. After a crash the address is taken again."""
        self.bind()
        bound = cast("socket.socket", self._bound)
        host, port = bound.getsockname()[:2]
        self.address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        server = _Server(self._config)
        serving = asyncio.create_task(server.serve(sockets=[bound]))
        sweeping = asyncio.create_task(_sweep(server))
        log.info("http.listening", address=self.address)
        try:
            ended, _ = await asyncio.wait((serving, sweeping), return_when=asyncio.FIRST_COMPLETED)
            for one in ended:
                one.result()
        finally:
            server.end()
            with anyio.move_on_after(END_SECONDS_MAX, shield=True):
                await asyncio.wait((serving,))
            server.force_exit = True
            sweeping.cancel()
            self.release()


def _bind(settings: Settings) -> socket.socket:
    host, port = settings.host, settings.port
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=settings.connections_max)
    except OSError as refused:
        # A name that cannot be resolved has a number of its own, without words for it here.
        why = refused.strerror if isinstance(refused, socket.gaierror) else os.strerror(refused.errno or 0)
        raise ListenerError(f"cannot listen on {host}:{port}: {why}") from refused
