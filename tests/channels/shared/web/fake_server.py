"""A fake server for outgoing URLs, which answers as it is told (hostile ways included), and a fake resolver."""

import asyncio
import json
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from ssl import SSLContext
from typing import Any, Self

from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult
from msgspec import Struct

LOOPBACK = "127.0.0.0/8"
ELSEWHERE = "127.0.0.2"
METADATA = "http://169.254.169.254/latest/meta-data/"


class Request(Struct, frozen=True):
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Behaviour = Callable[[web.Request], Awaitable[web.StreamResponse]]


class FakeServer:
    """The server. `next` are behaviours for the next requests, one each; afterwards it behaves as `always` says."""

    def __init__(self, always: Behaviour, tls: SSLContext | None = None) -> None:
        self._tls = tls
        self.requests: list[Request] = []
        self.next: deque[Behaviour] = deque()
        self.always = always
        self.port = 0
        self._runner: web.AppRunner

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http{'s' if self._tls else ''}://127.0.0.1:{self.port}/call"

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._take)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls).start()
        self.port = self._runner.addresses[0][1]
        # The same server under another address, which stands for a public one.
        await web.TCPSite(self._runner, ELSEWHERE, self.port).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _take(self, http: web.Request) -> web.StreamResponse:
        body = await http.read()
        headers = {name.lower(): value for name, value in http.headers.items()}
        self.requests.append(Request(http.method, http.path_qs, headers, body))
        return await (self.next.popleft() if self.next else self.always)(http)


def says(status: int, body: object = None, *, raw: bytes | None = None, **headers: str) -> Behaviour:
    """It answers with this: JSON, or with `raw` these very bytes as a page of HTML."""

    async def answer(_http: web.Request) -> web.StreamResponse:
        said = {name.replace("_", "-"): value for name, value in headers.items()}
        if raw is not None:
            return web.Response(status=status, body=raw, content_type="text/html", headers=said)
        return web.json_response(body, status=status, headers=said)

    return answer


async def dropped(http: web.Request) -> web.StreamResponse:
    """The connection is gone before an answer."""
    assert http.transport is not None
    http.transport.abort()
    return web.Response()


def half(status: int) -> Behaviour:
    """Half an answer, and then the connection is gone."""

    async def answer(http: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=status, headers={"Content-Length": "100"})
        await response.prepare(http)
        await response.write(b'{"success": tr')
        assert http.transport is not None
        http.transport.abort()
        return response

    return answer


class Endless:
    """A success whose body has no end; `written` counts what went out."""

    def __init__(self) -> None:
        self.written = 0
        self.stopped = asyncio.Event()

    async def __call__(self, http: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=200, headers={"Content-Type": "application/json"})
        await response.prepare(http)
        try:
            while True:
                await response.write(b" " * 65_536)
                self.written += 65_536
        except (ConnectionError, OSError):
            return response
        finally:
            self.stopped.set()


class Silent:
    """Nothing, until it is let go; with `head` the first half of a success comes before the silence, and says how long
    the whole is where it is `sized`."""

    def __init__(self, head: bool = False, sized: bool = True) -> None:
        self.begun = asyncio.Event()
        self.let_go = asyncio.Event()
        self._head = head
        self._headers = {"Content-Length": "100"} if sized else {}

    async def __call__(self, http: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=200, headers=self._headers)
        if self._head:
            await response.prepare(http)
            await response.write(b'{"success": tr')
        self.begun.set()
        await self.let_go.wait()
        return response if self._head else web.json_response({})


class FakeResolver(AbstractResolver):
    """Resolves every name to the next addresses of its list, and to the last ones from then on."""

    def __init__(self, port: int, *answers: Sequence[str]) -> None:
        self._port = port
        self._answers = deque(answers)
        self.asked: list[str] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        self.asked.append(host)
        addresses = self._answers.popleft() if len(self._answers) > 1 else self._answers[0]
        return [_result(host, address, self._port) for address in addresses]

    async def close(self) -> None:
        """Nothing is open."""


def _result(host: str, address: str, port: int) -> ResolveResult:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=0)


def json_of(request: Request) -> Any:
    """The content of a request."""
    return json.loads(request.body)
