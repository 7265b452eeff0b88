"""The interface: every endpoint there is, as routes, with the document that describes them."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import msgspec
import structlog
from litestar import MediaType, Response, get
from litestar.config.compression import CompressionConfig
from litestar.config.cors import CORSConfig
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler

from dispatcher.api import reference_page
from dispatcher.api.admission import Admission
from dispatcher.api.document import document
from dispatcher.api.endpoints import Endpoint, Served
from dispatcher.api.problems import (
    BROKEN,
    FAULTY,
    MEDIA_TYPE,
    METHOD_NOT_ALLOWED,
    NOT_FOUND,
    TOO_LARGE,
    Kind,
    Problem,
)
from dispatcher.api.serving import AnyRequest, Serving, request_id
from dispatcher.api.together import Together
from dispatcher.api.turns import Turns
from dispatcher.config import Config, Limits
from dispatcher.offload import Offload
from dispatcher.store.database import Database
from dispatcher.store.intake import Intake

log = structlog.get_logger(__name__)

# A request has no more time.
OFFLOAD_SECONDS_MAX = 15.0
# Smaller answers fit into a packet as they are.
GZIP_BYTES_MIN = 1_024
# The event loop waits for it: 1 MB takes 10 ms at this level, and 50 at the highest.
GZIP_LEVEL = 3
_KINDS: dict[int, Kind] = {kind.status: kind for kind in (NOT_FOUND, METHOD_NOT_ALLOWED, TOO_LARGE, FAULTY)}


class Interface:
    """The API of one process."""

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        config: Callable[[], Config],
        database: Callable[[], Database],
        pressed: Callable[[], bool] = lambda: False,
    ) -> None:
        self._endpoints = endpoints
        self._config = config
        self._intakes: tuple[Limits, Sequence[str], Intake] | None = None
        self._offload = Offload(OFFLOAD_SECONDS_MAX)
        admission = Admission(config, database)
        self._serving = Serving(
            Served(config, self._intake, admission.shed, Together(database).start, self._offload),
            admission,
            database,
            Turns(pressed),
        )

    @cached_property
    def _document(self) -> bytes:
        return msgspec.json.encode(document(self._endpoints))

    @cached_property
    def _page(self) -> str:
        return reference_page.page(document(self._endpoints))

    def _intake(self) -> Intake:
        """What reads deliveries, as the configuration is now. It keeps the templates that it has checked."""
        config = self._config()
        known = config.limits, tuple(config.channels)
        if self._intakes is None or self._intakes[:2] != known:
            self._intakes = (*known, Intake(config, hurried=True))
        return self._intakes[2]

    def handlers(self) -> list[HTTPRouteHandler]:
        """The routes."""

        # Made when it is first asked for, which takes a fifth of a second.
        @get("/openapi.json", media_type=MediaType.JSON, sync_to_thread=True)
        def openapi() -> Response[bytes]:
            return Response(self._document, media_type=MediaType.JSON, headers={"cache-control": "no-cache"})

        @get("/reference", media_type=MediaType.HTML, sync_to_thread=True)
        def reference() -> Response[str]:
            return Response(self._page, media_type=MediaType.HTML, headers=reference_page.HEADERS)

        paths = dict.fromkeys(one.path for one in self._endpoints)
        ways = [self._serving.ways(path, [one.method for one in self._endpoints if one.path == path]) for path in paths]
        # First: Litestar adds ways of its own to a path that has none, as they are then.
        return [openapi, reference, *ways, *map(self._serving.handler, self._endpoints)]


def cors(origins: str) -> CORSConfig | None:
    """Which pages may call us; none without any."""
    if not origins.split():
        return None
    return CORSConfig(
        allow_origins=origins.split(),
        allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
        allow_headers=["authorization", "content-type", "idempotency-key", "if-match", "x-request-id"],
        expose_headers=["etag", "idempotency-replayed", "retry-after", "x-request-id"],
    )


def compression() -> CompressionConfig:
    """Long answers are compressed for whoever says that they can read that."""
    return CompressionConfig(backend="gzip", minimum_size=GZIP_BYTES_MIN, gzip_compress_level=GZIP_LEVEL)


def crashed(request: AnyRequest, fault: Exception) -> Response[bytes]:
    """A bug: the log says which."""
    called = request_id(request)
    log.error("http.failed", request_id=called, path=request.scope["path"], exc_info=fault)
    return _answered(Problem(BROKEN, f"it is in the log as {called}"), called)


def refused(request: AnyRequest, fault: HTTPException) -> Response[bytes]:
    """What the routes themselves refuse, in the form of everything else that is refused."""
    kind = _KINDS.get(fault.status_code, FAULTY if fault.status_code < BROKEN.status else BROKEN)
    problem = Problem(kind, fault.detail if kind is not BROKEN else kind.title)
    return _answered(problem, request_id(request), fault.headers or {})


def _answered(problem: Problem, called: str, headers: Mapping[str, str] | None = None) -> Response[bytes]:
    told = {**(headers or {}), "x-request-id": called, "x-content-type-options": "nosniff"}
    return Response(problem.document(called), status_code=problem.kind.status, media_type=MEDIA_TYPE, headers=told)
