"""The API's routes: every endpoint, and the document that describes them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec
import structlog
from litestar import MediaType, Response, get
from litestar.config.compression import CompressionConfig
from litestar.config.cors import CORSConfig
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler

from dispatcher.base.worker_process import Offload
from dispatcher.config.settings import Config
from dispatcher.db.database import Database
from dispatcher.http.endpoints import Endpoint, Served
from dispatcher.http.openapi import reference_page
from dispatcher.http.openapi.document import document
from dispatcher.http.problems import BROKEN, FAULTY, MEDIA_TYPE, METHOD_NOT_ALLOWED, NOT_FOUND, TOO_LARGE, Kind, Problem
from dispatcher.http.server.admission import Admission, Ages
from dispatcher.http.server.backpressure import RequestSlots
from dispatcher.http.server.serving import AnyRequest, Serving, request_id

log = structlog.get_logger(__name__)

# A request has no more time than this.
OFFLOAD_SECONDS_MAX = 15.0
# Smaller answers fit into a packet as they are.
GZIP_BYTES_MIN = 1_024
# The event loop waits for it: 1 MB takes 10 ms at this level, and 50 at the highest.
GZIP_LEVEL = 3
# The option of routes that stream: compression would keep what they send back.
UNCOMPRESSED = "uncompressed"
_KINDS: dict[int, Kind] = {kind.status: kind for kind in (NOT_FOUND, METHOD_NOT_ALLOWED, TOO_LARGE, FAULTY)}


class ApiRoutes:
    """The API of one process."""

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        config: Callable[[], Config],
        database: Callable[[], Database],
        ages: Ages,
        trigger: Callable[[Any], Awaitable[Any]],
        is_busy: Callable[[], bool] = lambda: False,
        system: Callable[[], Awaitable[Any]] | None = None,
    ) -> None:
        self._endpoints = endpoints
        self._config = config
        self._offload = Offload(OFFLOAD_SECONDS_MAX)
        admission = Admission(config, database, ages)
        self.serving = Serving(
            Served(config, admission.shed, self._offload, trigger, system),
            admission,
            database,
            RequestSlots(is_busy),
        )

    @cached_property
    def _document(self) -> bytes:
        return msgspec.json.encode(document(self._endpoints))

    @cached_property
    def _page(self) -> str:
        return reference_page.page(document(self._endpoints))

    def handlers(self) -> list[HTTPRouteHandler]:
        # Made when it is first asked for, which takes a fifth of a second.
        @get("/openapi.json", media_type=MediaType.JSON, sync_to_thread=True)
        def openapi() -> Response[bytes]:
            return Response(self._document, media_type=MediaType.JSON, headers={"cache-control": "no-cache"})

        @get("/reference", media_type=MediaType.HTML, sync_to_thread=True)
        def reference() -> Response[str]:
            page = reference_page.noted(self._page, self._config().staging.words)
            return Response(page, media_type=MediaType.HTML, headers=reference_page.HEADERS)

        return [openapi, reference, *self.serving.handlers(self._endpoints)]


def cors(origins: str) -> CORSConfig | None:
    """Return the origins whose pages may call the API; None without any."""
    if not origins.split():
        return None
    return CORSConfig(
        allow_origins=origins.split(),
        allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
        allow_headers=["authorization", "content-type", "idempotency-key", "if-match", "traceparent", "x-request-id"],
        expose_headers=["dispatcher-staging", "etag", "idempotency-replayed", "retry-after", "x-request-id"],
    )


def compression() -> CompressionConfig:
    """Return how long answers are compressed, where the caller accepts gzip."""
    return CompressionConfig(
        backend="gzip", minimum_size=GZIP_BYTES_MIN, gzip_compress_level=GZIP_LEVEL, exclude_opt_key=UNCOMPRESSED
    )


def internal_error(request: AnyRequest, fault: Exception) -> Response[bytes]:
    """Log a bug, and return its answer."""
    called = request_id(request)
    log.error("http.failed", request_id=called, path=request.scope["path"], exc_info=fault)
    return _answered(Problem(BROKEN, f"it is in the log as {called}"), called)


def http_error(request: AnyRequest, fault: HTTPException) -> Response[bytes]:
    """Return what the routes themselves refuse as a problem document."""
    kind = _KINDS.get(fault.status_code, FAULTY if fault.status_code < BROKEN.status else BROKEN)
    problem = Problem(kind, fault.detail if kind is not BROKEN else kind.title)
    return _answered(problem, request_id(request), fault.headers or {})


def _answered(problem: Problem, called: str, headers: Mapping[str, str] | None = None) -> Response[bytes]:
    fields = {**(headers or {}), "x-request-id": called, "x-content-type-options": "nosniff"}
    return Response(problem.document(called), status_code=problem.kind.status, media_type=MEDIA_TYPE, headers=fields)
