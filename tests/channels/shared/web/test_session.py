"""The client beside a session of aiohttp, of whose parts it is made: the same request, and the same answer."""

import gzip
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from channels.shared.web.client import Answer, Bounds, Call, Client, Lost
from channels.shared.web.guard import Guard
from tests.channels.shared.web.fake_server import LOOPBACK, Behaviour, FakeServer, Request, half, says

ANSWER_BYTES_MAX = 1024 * 1024
HEADERS = {
    "User-Agent": "dispatcher",
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "Content-Type": "application/json",
}


@pytest.fixture
async def fake() -> AsyncIterator[FakeServer]:
    """A server that answers with an empty object."""
    async with FakeServer(says(200, {})) as fake:
        yield fake


async def in_pieces(http: web.Request) -> web.StreamResponse:
    """An answer without a length."""
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    response.enable_chunked_encoding()
    await response.prepare(http)
    for piece in (b"one ", b"and two"):
        await response.write(piece)
    return response


async def until_its_end(http: web.Request) -> web.StreamResponse:
    """An answer that ends with its connection."""
    assert http.transport is not None
    http.transport.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall of it")
    http.transport.close()
    return web.Response()


async def after_early_hints(http: web.Request) -> web.StreamResponse:
    """An answer behind one that is none yet."""
    assert http.transport is not None
    http.transport.write(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
    return web.json_response({"late": True})


async def said_by_session(call: Call) -> tuple[object, ...]:
    async with (
        aiohttp.ClientSession(
            headers=HEADERS, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False, trust_env=False
        ) as session,
        session.request(
            call.method, call.url, data=call.body or None, headers=call.headers, allow_redirects=False
        ) as response,
    ):
        try:
            return _told(response.status, dict(response.headers), await response.read())
        except aiohttp.ClientPayloadError:
            return _told(response.status, dict(response.headers), None)


async def said_by_client(call: Call) -> tuple[object, ...]:
    client = Client(Guard(LOOPBACK), Bounds(1, ANSWER_BYTES_MAX, 4.0))
    try:
        answer = await client.post(call)
    finally:
        await client.close()
    assert isinstance(answer, Answer)
    return _told(answer.status, dict(answer.headers), answer.body)


def _told(status: int, headers: dict[str, str], body: bytes | None) -> tuple[object, ...]:
    return status, {name: value for name, value in headers.items() if name != "Date"}, body


@pytest.mark.parametrize(
    ("path", "headers", "body", "method"),
    [
        ("", {}, b"{}", "POST"),
        ("", {}, b"", "POST"),
        ("", {}, b"", "GET"),
        ("", {}, b"", "HEAD"),
        ("", {"X-Key": "k", "content-type": "text/plain", "ACCEPT": "*/*"}, b"text", "POST"),
        ("/a%2Fb/ü?c=d%26e&f=ä#g", {}, b"{}", "POST"),
        ("", {"Authorization": "Bearer t", "Host": "elsewhere.example"}, b"{}", "POST"),
    ],
    ids=["body", "no body", "get", "head", "own headers", "odd path", "authorization"],
)
async def test_the_request_is_the_same(
    fake: FakeServer, path: str, headers: dict[str, str], body: bytes, method: str
) -> None:
    call = Call([], fake.url + path, headers, body, method=method)
    assert await said_by_client(call) == await said_by_session(call)
    ours, theirs = fake.requests
    assert ours == theirs


async def test_a_login_in_the_url_is_sent_the_same_way(fake: FakeServer) -> None:
    call = Call([], fake.url.replace("//", "//user:p%40ss@"), {}, b"{}")
    assert await said_by_client(call) == await said_by_session(call)
    ours, theirs = fake.requests
    assert ours == theirs
    assert ours.headers["authorization"].startswith("Basic ")


async def test_a_large_body_arrives_whole(fake: FakeServer) -> None:
    call = Call([], fake.url, {}, bytes(range(256)) * 16_384)
    await said_by_client(call)
    (ours,) = fake.requests
    assert ours == Request("POST", "/call", ours.headers, call.body)
    assert ours.headers["content-length"] == str(len(call.body))


@pytest.mark.parametrize(
    "answers",
    [
        says(200, {"id": "1"}),
        says(204, raw=b""),
        says(302, {}, Location="/elsewhere"),
        says(500, raw=b"<p>no</p>", Retry_After="3"),
        says(200, raw=gzip.compress(b"small"), Content_Encoding="gzip"),
        says(200, {}, Set_Cookie="a=b"),
        half(200),
        in_pieces,
        until_its_end,
        after_early_hints,
    ],
    ids=["json", "nothing", "redirect", "error", "gzip", "cookie", "half", "pieces", "to its end", "early hints"],
)
async def test_the_answer_is_the_same(fake: FakeServer, answers: Behaviour) -> None:
    fake.always = answers
    call = Call([], fake.url, {}, b"{}")
    assert await said_by_client(call) == await said_by_session(call)


async def test_a_url_of_another_scheme_is_not_called(fake: FakeServer) -> None:
    client = Client(Guard(LOOPBACK), Bounds(1, ANSWER_BYTES_MAX, 4.0))
    answers = [await client.post(Call([], fake.url.replace("http", scheme), {}, b"{}")) for scheme in ("ws", "ftp")]
    await client.close()
    assert answers == 2 * [Lost(written=False, why="NonHttpUrlClientError")]
