"""Serving: one request from its first byte to its answer, the same way for every endpoint."""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from secrets import token_hex
from typing import Any

import msgspec
import structlog
from litestar import HttpMethod, Request
from litestar.datastructures import State
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler
from litestar.response.base import ASGIResponse
from litestar.types import ASGIApp, Receive, Scope, Send
from msgspec import Struct

from dispatcher.base.errors import CallLost, Fault
from dispatcher.base.values import traceparent
from dispatcher.db import tenants
from dispatcher.db.database import PASSING, Database
from dispatcher.db.tenants import Transaction
from dispatcher.http import etags, reading
from dispatcher.http.endpoints import RAW, Call, Endpoint, Nothing, Part, Served
from dispatcher.http.operators import is_operator
from dispatcher.http.problems import (
    BROKEN,
    CONFLICT,
    ERASED,
    FAULTY,
    KEY_REUSED,
    MEDIA_TYPE,
    OVERLOADED,
    SLOW,
    TIMED_OUT,
    TOO_LARGE,
    UNAVAILABLE,
    UNSUPPORTED,
    Problem,
    faulty,
)
from dispatcher.http.roles import Right
from dispatcher.http.server import idempotency, placement
from dispatcher.http.server.admission import Admission
from dispatcher.http.server.authentication import Key
from dispatcher.http.server.backpressure import RequestSlots
from dispatcher.http.server.connection_shares import Shares
from dispatcher.http.server.idempotency import KeyedRequest
from dispatcher.http.server.scopes import decode_name

log = structlog.get_logger(__name__)

AnyRequest = Request[object, object, State]

JSON = "application/json"
RETRY_SECONDS = "5"
# Larger bodies are read in a thread, so that the event loop goes on.
LARGE_BYTES = 64 * 1024
# One at a time: several would not be quicker, and each thread keeps the memory that its largest body took.
_READER = ThreadPoolExecutor(1, "reading")
# What operators may do beyond their own workspace.
BEYOND = frozenset((Right.KEYS, Right.PAUSES))
_HEADERS = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_IDEMPOTENCY_KEY = re.compile(r"[!-~]{1,255}")


class _Versioned(Struct):
    version: int


_version = msgspec.json.Decoder(_Versioned).decode


class _Answer(Struct):
    status: int
    body: bytes
    headers: dict[str, str]
    media_type: str = JSON


def routed(path: str) -> str:
    """Return a path in the form of Litestar's routes."""
    return "/".join(f"{{{part[1:-1]}:str}}" if part[:1] == "{" else part for part in path.split("/"))


def _methods(by_method: Mapping[str, Endpoint]) -> tuple[HttpMethod, ...]:
    return tuple(map(HttpMethod, sorted({*by_method, HttpMethod.OPTIONS.value})))


class _EncodedResponse:
    """An ASGI response whose body is encoded already."""

    def __init__(self, answer: _Answer, called: str) -> None:
        self._answer = answer
        self._called = called

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        answer = self._answer
        headers = [
            (b"content-type", answer.media_type.encode()),
            (b"content-length", b"%d" % len(answer.body)),
            (b"x-request-id", self._called.encode()),
            *_HEADERS,
            *((name.encode(), value.encode()) for name, value in answer.headers.items()),
        ]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body, "more_body": False})


def _field(request: AnyRequest, name: bytes) -> str | None:
    """Return a header field. (Litestar's own object of them costs as much as reading a small body.)"""
    for called, value in request.scope["headers"]:
        if called == name:
            return value.decode("latin-1")
    return None


def _media_type(request: AnyRequest) -> str:
    return (_field(request, b"content-type") or "").partition(";")[0].strip().lower()


def request_id(request: AnyRequest) -> str:
    """Return the id that a request has, or a new one."""
    given = _field(request, b"x-request-id") or ""
    return given if _REQUEST_ID.fullmatch(given) else token_hex(16)


class Serving:
    def __init__(
        self, served: Served, admission: Admission, database: Callable[[], Database], slots: RequestSlots
    ) -> None:
        self._served = served
        self._slots = slots
        self.admission = admission
        self._database = database
        self._shares = Shares(served.config().api.connections)

    def handlers(self, endpoints: Sequence[Endpoint]) -> list[HTTPRouteHandler]:
        """Return the routes of endpoints, and of OPTIONS.

        One for all paths with the same methods: Litestar reads the signature of each handler, which takes 0.2 ms.
        """
        served: dict[str, dict[str, Endpoint]] = {}
        for one in endpoints:
            served.setdefault(one.path, {})[one.method] = one

        async def handle(request: AnyRequest) -> ASGIApp:
            by_method = served[request.scope["path_template"]]
            if request.method == HttpMethod.OPTIONS:
                return ASGIResponse(status_code=204, headers={"allow": ", ".join(_methods(by_method))})
            called = request_id(request)
            return _EncodedResponse(await self._answered(by_method[request.method], request, called), called)

        paths: dict[tuple[HttpMethod, ...], list[str]] = {}
        for path, by_method in served.items():
            paths.setdefault(_methods(by_method), []).append(routed(path))
        # A body's size is watched here, before any of it is read into anything.
        return [
            HTTPRouteHandler(some, http_method=methods, status_code=200, request_max_body_size=None)(handle)
            for methods, some in paths.items()
        ]

    async def ask(
        self,
        endpoint: Endpoint,
        key: Key,
        names: Mapping[str, str],
        asked: list[tuple[str, str]],
        body: bytes = b"",
        if_match: str | None = None,
    ) -> Any:  # noqa: ANN401 - a struct of the endpoint's own
        """Return an endpoint's answer to a page of this process, for a key that is authenticated. Raises Problem."""
        await self.admission.admit(key, endpoint.right)
        query = reading.read_query(asked, endpoint.query)
        given: Any = Nothing()
        if endpoint.given is not None:
            given = reading.tree(body) if endpoint.reads_itself else reading.read(body, endpoint.given)
        part = Part(key.workspace.tenant_id, key.workspace.workspace_id)
        call = Call(self._served, key, part, self._database(), names, query, given, body, None, if_match)
        with self.admission.place(key), placement.refusals():
            async with self._slots.slot():
                if OVERLOADED in endpoint.problems:
                    await self.admission.look()
                if endpoint.gathers:
                    return (await endpoint.handle(call)).body
                async with self._within(endpoint, call) as inside:
                    return (await endpoint.handle(_on(call, inside))).body

    async def _answered(self, endpoint: Endpoint, request: AnyRequest, called: str) -> _Answer:
        seconds_max = self._served.config().api.request_seconds_max
        try:
            async with asyncio.timeout(seconds_max):
                return await self._answer(endpoint, request)
        except Problem as problem:
            return _problem(endpoint, problem, called)
        except TimeoutError:
            return _problem(
                endpoint,
                Problem(SLOW, f"it took over {seconds_max:g} s: it may have been done, or may be done yet"),
                called,
            )
        except CallLost as lost:
            log.warning("api.call_lost", request_id=called, operation=endpoint.operation, error=str(lost))
            return _problem(endpoint, Problem(SLOW, "nothing was done"), called)
        except PASSING as trouble:
            log.warning(
                "api.unavailable", request_id=called, operation=endpoint.operation, error=type(trouble).__name__
            )
            headers = {"retry-after": RETRY_SECONDS}
            return _problem(endpoint, Problem(UNAVAILABLE, "please try again", headers=headers), called)
        except Exception:
            log.exception("api.failed", request_id=called, operation=endpoint.operation)
            return _problem(endpoint, Problem(BROKEN, f"it is in the log as {called}"), called)

    async def _answer(self, endpoint: Endpoint, request: AnyRequest) -> _Answer:
        key = await self.admission.key(_field(request, b"authorization"))
        await self.admission.admit(key, endpoint.right)
        with self.admission.place(key), placement.refusals():
            return await self._admitted(endpoint, request, key)

    async def _admitted(self, endpoint: Endpoint, request: AnyRequest, key: Key) -> _Answer:
        asked = list(request.query_params.multi_items()) if request.scope["query_string"] else []
        faults: list[Fault] = []
        query = again = None
        with _collecting(faults):
            query = reading.read_query(asked, endpoint.query)
        with _collecting(faults):
            again = _idempotency_key(request)
        faults += _ignored_conditions(endpoint, request)
        faults += _traceparent_faults(endpoint, request)
        body = b"" if endpoint.given is None else await self._body(endpoint, request)
        async with self._slots.slot():
            if faults:
                with _collecting(faults):
                    await _given(endpoint, request, body, itself=False)
                raise faulty(faults)
            return await self._in_slot(endpoint, request, key, query, again, body)

    async def _in_slot(
        self, endpoint: Endpoint, request: AnyRequest, key: Key, query: object, again: str | None, body: bytes
    ) -> _Answer:
        given = await _given(endpoint, request, body, itself=endpoint.reads_itself)
        match = _field(request, b"if-match")
        names = {name: decode_name(text) for name, text in request.path_params.items()}
        part = Part(key.workspace.tenant_id, key.workspace.workspace_id)
        call = Call(self._served, key, part, self._database(), names, query, given, body, again, match)
        if endpoint.traced:
            call = msgspec.structs.replace(call, traceparent=_field(request, b"traceparent"))
        if OVERLOADED in endpoint.problems:
            # Before there is a transaction: in one it would wait for a second connection, with others waiting for it.
            await self.admission.look()
        if again is not None and endpoint.method == "POST":
            return await self._once(endpoint, call, KeyedRequest(key.workspace, again, _hash(request, body)))
        if endpoint.gathers:
            return await _do(endpoint, call)
        async with self._within(endpoint, call) as inside:
            return await _do(endpoint, _on(call, inside))

    @asynccontextmanager
    async def _within(self, endpoint: Endpoint, call: Call) -> AsyncIterator[Transaction]:
        """The one transaction of a request."""
        beyond = endpoint.right in BEYOND and is_operator(call)
        async with (
            self._shares.one(call.key.id),
            tenants.transaction(call.database, call.workspace, operators=beyond) as inside,
        ):
            yield inside

    async def _once(self, endpoint: Endpoint, call: Call, asked: KeyedRequest) -> _Answer:
        """Serve a request and store its answer in one transaction, or return the answer that it had before."""
        async with self._within(endpoint, call) as inside:
            before = await idempotency.begin(inside, asked)
            if before is None:
                answer = await _do(endpoint, _on(call, inside))
                stored = b"" if endpoint.shown_once else answer.body
                await idempotency.finish(inside, asked, answer.status, stored)
                return answer
        if not before.same:
            raise Problem(KEY_REUSED, f"the Idempotency-Key {asked.key} belongs to a request that said something else")
        if before.erased:
            raise Problem(ERASED, "it was done, and its answer was erased with the person whom it was about")
        if endpoint.shown_once:
            raise Problem(CONFLICT, "the first request with this Idempotency-Key has done it; its answer is shown once")
        headers = {"idempotency-replayed": "true"}
        if endpoint.tagged:
            headers["etag"] = etags.tag(_version(before.body).version)
        return _Answer(before.status, before.body, headers)

    async def _body(self, endpoint: Endpoint, request: AnyRequest) -> bytes:
        settings = self._served.config().api
        most = settings.batch_bytes_max if endpoint.large else settings.body_bytes_max
        kinds = (JSON, RAW) if endpoint.raw else (JSON,)
        if _media_type(request) not in kinds:
            raise Problem(UNSUPPORTED, f"the body has to be {' or '.join(kinds)}, and say so")
        if (_field(request, b"content-encoding") or "identity").lower() != "identity":
            raise Problem(UNSUPPORTED, "the body has to be as it is, and not compressed")
        length = _field(request, b"content-length") or ""
        if length.isdecimal() and int(length[:20]) > most:
            raise _too_large(most)
        chunks, size = [], 0
        try:
            async with asyncio.timeout(settings.body_seconds_max):
                async for chunk in request.stream():
                    size += len(chunk)
                    if size > most:
                        raise _too_large(most)
                    chunks.append(chunk)
        except HTTPException as fault:
            # The caller has hung up.
            raise Problem(TIMED_OUT, "its body ended in the middle") from fault
        except TimeoutError as fault:
            raise Problem(TIMED_OUT, f"its body was not there within {settings.body_seconds_max:g} s") from fault
        return b"".join(chunks)


@contextmanager
def _collecting(faults: list[Fault]) -> Iterator[None]:
    """Collect the faults of a request, so that all of them are reported at once."""
    try:
        yield
    except Problem as problem:
        if problem.kind is not FAULTY:
            raise
        faults += problem.faults


async def _given(endpoint: Endpoint, request: AnyRequest, body: bytes, *, itself: bool) -> Any:  # noqa: ANN401 - of the endpoint's own type
    if endpoint.given is None:
        return Nothing()
    if endpoint.raw and _media_type(request) == RAW:
        return body
    given = endpoint.given
    read: Callable[[], Any] = (lambda: reading.tree(body)) if itself else lambda: reading.read(body, given)
    if len(body) <= LARGE_BYTES:
        return read()
    return await asyncio.get_running_loop().run_in_executor(_READER, read)


async def _do(endpoint: Endpoint, call: Call) -> _Answer:
    done = await endpoint.handle(call)
    return _Answer(done.status, msgspec.json.encode(done.body), dict(done.headers))


def _on(call: Call, database: Database) -> Call:
    return msgspec.structs.replace(call, database=database)


def _problem(endpoint: Endpoint, problem: Problem, called: str) -> _Answer:
    status = problem.kind.status
    if endpoint.enveloped:
        return _Answer(status, problem.envelope(), problem.headers)
    return _Answer(status, problem.document(called), problem.headers, MEDIA_TYPE)


def _too_large(most: int) -> Problem:
    # The rest of it is not read, so the connection cannot be used again.
    return Problem(TOO_LARGE, f"its body is over {most} bytes", headers={"connection": "close"})


def _idempotency_key(request: AnyRequest) -> str | None:
    given = _field(request, b"idempotency-key")
    if given is not None and not _IDEMPOTENCY_KEY.fullmatch(given):
        raise faulty([Fault("header.Idempotency-Key", "expected 1 to 255 printable characters without spaces")])
    return given


def _ignored_conditions(endpoint: Endpoint, request: AnyRequest) -> Iterator[Fault]:
    """Return the conditions of a request that would be ignored although its caller relies on them."""
    if endpoint.method == "GET":
        return
    if _field(request, b"if-none-match") is not None:
        yield Fault("header.If-None-Match", "is not heeded: If-Match says what may not have been changed")
    if not endpoint.heeds_if_match and _field(request, b"if-match") is not None:
        yield Fault("header.If-Match", "is not heeded here")


def _traceparent_faults(endpoint: Endpoint, request: AnyRequest) -> Iterator[Fault]:
    given = _field(request, b"traceparent") if endpoint.traced else None
    if given is not None and not traceparent.is_traceparent(given):
        yield Fault("header.traceparent", traceparent.WORDS)


def _hash(request: AnyRequest, body: bytes) -> bytes:
    """Return a hash by which a repeated request is recognised."""
    head = f"{request.method} {request.scope['path']}?".encode() + request.scope["query_string"] + b"\0"
    return hashlib.sha256(head + body).digest()
