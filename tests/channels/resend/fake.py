"""A stand-in for Resend's API: an HTTP server that records messages, and misbehaves as it is told.

It shares no code with the channel: what it takes, how it de-duplicates and how it counts is written from the API's
documentation.
"""

import asyncio
import json
import math
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any, Self

from aiohttp import web
from msgspec import Struct

KEY = "re_test_5d1c"
BATCH_MAX = 100


class Request(Struct, frozen=True):
    """One POST as it arrived."""

    path: str
    key: str
    body: bytes
    headers: dict[str, str]

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages that it sends."""
        said = json.loads(self.body)
        return said if isinstance(said, list) else [said]


class Mail(Struct, frozen=True):
    """One message that was really sent."""

    id: str
    message: dict[str, Any]

    @property
    def delivery(self) -> int:
        """Its key."""
        return next(int(tag["value"]) for tag in self.message["tags"] if tag["name"] == "delivery")


Fault = Callable[["FakeResend", web.Request, Request], Awaitable[web.StreamResponse]]


class FakeResend:
    """The server. `faults` are for the next requests, one each (None: behave); `limit` is requests a window."""

    def __init__(self, limit: int = 0, window_seconds: float = 1.0) -> None:
        self.requests: list[Request] = []
        self.sent: list[Mail] = []
        self.faults: deque[Fault | None] = deque()
        self.every: Fault | None = None
        self.limit = limit
        self.window_seconds = window_seconds
        self.statuses: list[int] = []
        self.under_way = 0
        self.under_way_max = 0
        self.port = 0
        self._answers: dict[str, tuple[bytes, dict[str, Any]]] = {}
        self._at_work: set[str] = set()
        self._ids = count(1)
        self._window = (0, 0)
        self._runner: web.AppRunner

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/{path:.*}", self._take)
        app.router.add_route("HEAD", "/", _reached)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    def times(self) -> dict[int, int]:
        """How often each delivery's message was really sent."""
        times: dict[int, int] = {}
        for mail in self.sent:
            times[mail.delivery] = times.get(mail.delivery, 0) + 1
        return times

    async def _take(self, http: web.Request) -> web.StreamResponse:
        self.under_way += 1
        self.under_way_max = max(self.under_way_max, self.under_way)
        try:
            body = await http.read()
            said = {name.lower(): value for name, value in http.headers.items()}
            request = Request(http.path, said.get("idempotency-key", ""), body, said)
            self.requests.append(request)
            fault = (self.faults.popleft() if self.faults else None) or self.every
            answer = await (fault(self, http, request) if fault else self.behave(request))
            self.statuses.append(answer.status)
            return answer
        finally:
            self.under_way -= 1

    async def behave(self, request: Request) -> web.Response:
        """What the API does with a request that it has the limits for."""
        limits, refused = self._count()
        return refused or _json(*self.process(request), headers=limits)

    def _count(self) -> tuple[dict[str, str], web.Response | None]:
        """One more request in the window; the headers that say so, and the refusal where it is one too many."""
        if not self.limit:
            return {}, None
        now = asyncio.get_running_loop().time()
        number, used = int(now / self.window_seconds), self._window[1]
        used = used + 1 if number == self._window[0] else 1
        self._window = (number, used)
        reset = (number + 1) * self.window_seconds - now
        headers = {
            "ratelimit-limit": str(self.limit),
            "ratelimit-remaining": str(max(0, self.limit - used)),
            # Whole seconds where it counts in seconds, as the API does.
            "ratelimit-reset": str(math.ceil(reset) if self.window_seconds >= 1 else reset),
        }
        if used <= self.limit:
            return headers, None
        too_many = error(429, "rate_limit_exceeded", "Too many requests.")
        return headers, _json(*too_many, headers=headers | {"retry-after": headers["ratelimit-reset"]})

    def process(self, request: Request) -> tuple[int, dict[str, Any]]:
        """What the API does with a request: check it, look its key up, send."""
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return error(403, "invalid_api_key", "API key is invalid")
        if not 1 <= len(request.key) <= 256:
            return error(400, "invalid_idempotency_key", "The key must be between 1-256 chars.")
        if request.key in self._at_work:
            return error(409, "concurrent_idempotent_requests", "Same idempotency key, still in progress")
        if request.key in self._answers:
            body, answer = self._answers[request.key]
            if body != request.body:
                return error(409, "invalid_idempotent_request", "Same idempotency key, different request payload")
            return 200, answer
        status, answer = self._send(request)
        if status == 200:
            self._answers[request.key] = (request.body, answer)
        return status, answer

    def _send(self, request: Request) -> tuple[int, dict[str, Any]]:
        messages = request.messages
        faults = {place: fault for place, one in enumerate(messages) if (fault := _fault(one))}
        if request.path == "/emails":
            return error(422, *faults[0]) if faults else (200, {"id": self._keep(messages[0])})
        if request.path != "/emails/batch":
            return error(404, "not_found", "The requested endpoint does not exist")
        if not 1 <= len(messages) <= BATCH_MAX or any("attachments" in one for one in messages):
            return error(422, "validation_error", "The batch is too large, or has attachments")
        if faults and request.headers.get("x-batch-validation") != "permissive":
            return error(422, *next(iter(faults.values())))
        data = [{"id": self._keep(one)} for place, one in enumerate(messages) if place not in faults]
        errors = [{"index": place, "message": words} for place, (_, words) in faults.items()]
        return 200, {"data": data} | ({"errors": errors} if errors else {})

    def _keep(self, message: dict[str, Any]) -> str:
        mail = Mail(f"mail-{next(self._ids)}", message)
        self.sent.append(mail)
        return mail.id


def _fault(message: dict[str, Any]) -> tuple[str, str] | None:
    """A word in the subject asks for a fault, as the API has none of its own that a test can bring about at will."""
    for field in ("from", "to", "subject"):
        if not message.get(field):
            return "missing_required_field", f"The `{field}` field is missing."
    if "refuse-me" in message["subject"]:
        return "validation_error", f"Invalid `to` field: {message['to'][0]} in {message['subject']}."
    return None


def error(status: int, name: str, message: str) -> tuple[int, dict[str, Any]]:
    """An error in the API's form."""
    return status, {"statusCode": status, "name": name, "message": message}


def _json(status: int, body: dict[str, Any], headers: dict[str, str] | None = None) -> web.Response:
    return web.json_response(body, status=status, headers=headers)


async def _reached(_http: web.Request) -> web.Response:
    return web.Response(status=405)


# Faults


def says(status: int, body: object = b"", **headers: str) -> Fault:
    """It answers with this and does nothing. A tuple is an error's name and words, bytes are a page."""

    async def fault(_fake: FakeResend, _http: web.Request, _request: Request) -> web.StreamResponse:
        said = {name.replace("_", "-"): value for name, value in headers.items()}
        if isinstance(body, tuple):
            return _json(*error(status, *body), headers=said)
        if isinstance(body, bytes):
            return web.Response(status=status, body=body, content_type="text/html", headers=said)
        return web.json_response(body, status=status, headers=said)

    return fault


async def taken_and_dropped(fake: FakeResend, http: web.Request, request: Request) -> web.StreamResponse:
    """It sends, and the connection is gone before the answer."""
    fake.process(request)
    return await dropped(fake, http, request)


async def dropped(_fake: FakeResend, http: web.Request, _request: Request) -> web.StreamResponse:
    """The connection is gone, and nothing was done."""
    assert http.transport is not None
    http.transport.abort()
    return web.Response()


def taken_and_says(status: int, body: object = b"", **headers: str) -> Fault:
    """It sends, and answers with this nevertheless."""

    async def fault(fake: FakeResend, http: web.Request, request: Request) -> web.StreamResponse:
        fake.process(request)
        return await says(status, body, **headers)(fake, http, request)

    return fault


class Hanging:
    """It sends, and answers nothing until it is let go. Meanwhile the key is at work."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.let_go = asyncio.Event()

    async def __call__(self, fake: FakeResend, _http: web.Request, request: Request) -> web.StreamResponse:
        answer = fake.process(request)
        fake._at_work.add(request.key)
        self.begun.set()
        try:
            await self.let_go.wait()
        finally:
            fake._at_work.discard(request.key)
        return _json(*answer)


class AtWork:
    """It loses the connection at once and sends later: repeats meet a key at work until `done`."""

    def __init__(self) -> None:
        self.key = ""

    async def __call__(self, fake: FakeResend, http: web.Request, request: Request) -> web.StreamResponse:
        self.key = request.key
        fake.process(request)
        fake._at_work.add(request.key)
        return await dropped(fake, http, request)

    def done(self, fake: FakeResend) -> None:
        """The first request is through."""
        fake._at_work.discard(self.key)


async def endless(_fake: FakeResend, http: web.Request, _request: Request) -> web.StreamResponse:
    """A success whose body has no end."""
    response = web.StreamResponse(status=200, headers={"Content-Type": "application/json"})
    await response.prepare(http)
    try:
        while True:
            await response.write(b" " * 65_536)
    except (ConnectionError, OSError):
        return response


async def cut_off(_fake: FakeResend, http: web.Request, _request: Request) -> web.StreamResponse:
    """Half a success, and then the connection is gone."""
    response = web.StreamResponse(status=200, headers={"Content-Type": "application/json", "Content-Length": "100"})
    await response.prepare(http)
    await response.write(b'{"id": "ma')
    assert http.transport is not None
    http.transport.abort()
    return response
