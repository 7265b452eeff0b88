"""The HTTP listener: metrics and probes, and what else it is given: the recipients' pages and the API."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator, Sequence

import structlog
import uvicorn
from litestar import Litestar, MediaType, Response, get
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest

from dispatcher.api.interface import compression, cors, crashed, refused
from dispatcher.api.paths import keeping_slashes
from dispatcher.config import Http as Settings
from dispatcher.errors import ListenerError
from dispatcher.health import Health

log = structlog.get_logger(__name__)

KEEP_ALIVE_SECONDS = 30
REQUESTS_AT_ONCE_MAX = 200


def application(
    health: Health,
    registry: CollectorRegistry,
    measure: Callable[[], None],
    pages: Sequence[HTTPRouteHandler] = (),
    allow_origins: str = "",
) -> Litestar:
    """The routes. `measure` brings the gauges up to date before they are read."""

    @get("/healthz", media_type=MediaType.JSON, sync_to_thread=False)
    def healthz() -> Response[dict[str, object]]:
        alive = health.alive()
        return Response({"alive": alive}, status_code=200 if alive else 503)

    @get("/readyz", media_type=MediaType.JSON, sync_to_thread=False)
    def readyz() -> Response[dict[str, object]]:
        reasons = health.unready()
        return Response({"ready": not reasons, "reasons": reasons}, status_code=503 if reasons else 200)

    @get("/metrics", sync_to_thread=False)
    def metrics() -> Response[bytes]:
        measure()
        text: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]  # the library has no annotation here
        return Response(text, media_type=CONTENT_TYPE_LATEST)

    return Litestar(
        [healthz, readyz, metrics, *pages],
        openapi_config=None,
        logging_config=None,
        cors_config=cors(allow_origins),
        compression_config=compression(),
        exception_handlers={HTTPException: refused, Exception: crashed},
    )


class _Server(uvicorn.Server):
    """Signals are the application's: uvicorn must not take them."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Listener:
    """Serves until cancelled. `address` is set once it listens."""

    def __init__(self, app: Litestar, settings: Settings) -> None:
        self._settings = settings
        self._config = uvicorn.Config(
            keeping_slashes(app),
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            limit_concurrency=REQUESTS_AT_ONCE_MAX,
            server_header=False,
        )
        self.address: str | None = None

    async def run(self) -> None:
        """Listen, and say where."""
        # Bound here: uvicorn leaves the process when it cannot bind.
        bound = self._bind()
        host, port = bound.getsockname()[:2]
        self.address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        server = _Server(self._config)
        serving = asyncio.create_task(server.serve(sockets=[bound]))
        log.info("http.listening", address=self.address)
        try:
            await asyncio.shield(serving)
        finally:
            server.should_exit = server.force_exit = True
            if not serving.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await serving
            bound.close()

    def _bind(self) -> socket.socket:
        host, port = self._settings.host, self._settings.port
        try:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            return socket.create_server((host, port), family=family, backlog=REQUESTS_AT_ONCE_MAX)
        except OSError as refused:
            raise ListenerError(f"cannot listen on {host}:{port}: {refused.strerror or refused}") from refused
