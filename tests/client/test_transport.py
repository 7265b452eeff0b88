"""The transport: what it asks again and what it does not, what it raises, and that its key stays with it."""

import asyncio
import copy
import json
import pickle
import traceback
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import msgspec
import pytest

from dispatcher.base.errors import Fault
from dispatcher.client import errors, transport
from dispatcher.client.errors import ClientError
from dispatcher.client.transport import Reply, Transport
from dispatcher.http import problems
from tests.channels.shared.web.fake_server import Behaviour, FakeServer, Silent, dropped, half, says

KEY = "dsp_abcdefgh_very-secret"


class _Empty(msgspec.Struct):
    """Whatever else is there is passed over."""


def _problem(kind: problems.Kind, *faults: Fault, **headers: str) -> Behaviour:
    document = problems.Problem(kind, "in some words", faults).document("r-1")
    return says(kind.status, json.loads(document), raw=None, **headers)


@pytest.fixture
async def fake() -> AsyncIterator[FakeServer]:
    """A server that answers as it is told."""
    async with FakeServer(says(200, {"id": 17})) as running:
        yield running


class Waits:
    """Waits that take no time, and are kept."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


@pytest.fixture
def waits() -> Waits:
    """How long the transport would have waited."""
    return Waits()


@pytest.fixture
async def client(fake: FakeServer, waits: Waits) -> AsyncIterator[Transport]:
    """A transport to the server."""
    async with aclosing(Transport(fake.url, KEY, pause=waits)) as made:
        yield made


async def test_a_call_sends_its_request_and_reads_the_answer(fake: FakeServer, client: Transport) -> None:
    path = f"/workflows/{transport.segment('a b/ü')}/triggers"
    reply = await client.ask("POST", path, query={"limit": 3, "cursor": None}, body={"a": [1]})
    assert reply.read(dict[str, int]) == {"id": 17}
    (request,) = fake.requests
    assert (request.method, request.path) == ("POST", "/call/workflows/a%20b%2F%C3%BC/triggers?limit=3")
    assert request.body == b'{"a":[1]}'
    headers = request.headers
    assert headers["authorization"] == f"Bearer {KEY}"
    assert headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    "trouble",
    [
        dropped,
        half(200),
        _problem(problems.TOO_MANY),
        _problem(problems.OVERLOADED),
        _problem(problems.UNAVAILABLE),
        _problem(problems.SLOW),
        says(502, raw=b"<html>"),
        says(503, raw=b"<html>"),
        says(504, raw=b"<html>"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_passing_errors_are_retried_with_the_same_key(
    fake: FakeServer, client: Transport, waits: Waits, trouble: Behaviour, method: transport.Method
) -> None:
    fake.next.extend([trouble, trouble])
    assert (await client.ask(method, "/x")).status == 200
    keys = {request.headers.get("idempotency-key") for request in fake.requests}
    assert len(fake.requests) == 3
    assert len(keys) == 1
    assert (keys == {None}) is (method == "GET")
    assert len(waits.seconds) == 2


async def test_each_call_has_a_key_of_its_own(fake: FakeServer, client: Transport) -> None:
    for _ in range(2):
        await client.ask("POST", "/x", body={})
    assert len({request.headers["idempotency-key"] for request in fake.requests}) == 2


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 409, 412, 413, 415, 422, 500, 501, 301, 307, 418])
async def test_permanent_errors_are_not_retried(fake: FakeServer, client: Transport, status: int) -> None:
    fake.next.extend([says(status, location=fake.url)])
    with pytest.raises(ClientError) as raised:
        await client.ask("POST", "/x", body={})
    assert raised.value.status == status
    assert len(fake.requests) == 1


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
@pytest.mark.parametrize("trouble", [dropped, _problem(problems.UNAVAILABLE)])
async def test_requests_without_a_key_are_not_retried(
    fake: FakeServer, client: Transport, method: transport.Method, trouble: Behaviour
) -> None:
    fake.next.extend([trouble, trouble])
    with pytest.raises(errors.Unavailable):
        await client.ask(method, "/x", body={})
    assert len(fake.requests) == 1


async def test_attempts_come_to_an_end(fake: FakeServer, client: Transport, waits: Waits) -> None:
    fake.always = _problem(problems.UNAVAILABLE)
    with pytest.raises(errors.Unavailable):
        await client.ask("GET", "/x")
    assert len(fake.requests) == transport.ATTEMPTS_MAX
    assert waits.seconds == sorted(waits.seconds)


@pytest.mark.parametrize("kind", [problems.TOO_MANY, problems.OVERLOADED, problems.UNAVAILABLE])
async def test_it_waits_for_as_long_as_it_is_told(
    fake: FakeServer, client: Transport, waits: Waits, kind: problems.Kind
) -> None:
    fake.next.append(_problem(kind, retry_after="7"))
    await client.ask("POST", "/x", body={})
    (waited,) = waits.seconds
    assert 7 <= waited <= 7 + transport.WAIT_SECONDS


async def test_a_too_long_retry_after_is_raised_with_its_seconds(fake: FakeServer, waits: Waits) -> None:
    fake.next.append(_problem(problems.TOO_MANY, retry_after="60"))
    async with aclosing(Transport(fake.url, KEY, seconds=50, pause=waits)) as client:
        with pytest.raises(errors.TooMany) as raised:
            await client.ask("POST", "/x", body={})
    assert raised.value.retry_after == 60
    assert (len(fake.requests), waits.seconds) == (1, [])


async def test_a_call_has_an_end(fake: FakeServer) -> None:
    fake.always = silent = Silent()
    async with aclosing(Transport(fake.url, KEY, seconds=0.2)) as client:
        with pytest.raises(TimeoutError) as raised:
            await client.ask("GET", "/x")
    silent.let_go.set()
    assert isinstance(raised.value, errors.TimedOut)


async def test_a_silent_server_is_retried_within_the_call(
    fake: FakeServer, client: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "ATTEMPT_SECONDS_MAX", 0.05)
    silent = Silent()
    fake.next.append(silent)
    async with asyncio.timeout(10):
        assert (await client.ask("POST", "/x", body={})).status == 200
    silent.let_go.set()
    assert len({request.headers["idempotency-key"] for request in fake.requests}) == 1
    assert len(fake.requests) == 2


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        (problems.FAULTY, errors.Refused),
        (problems.UNAUTHENTICATED, errors.Unauthenticated),
        (problems.FORBIDDEN, errors.Forbidden),
        (problems.NOT_FOUND, errors.NotFound),
        (problems.METHOD_NOT_ALLOWED, errors.Refused),
        (problems.TIMED_OUT, errors.Refused),
        (problems.CONFLICT, errors.Conflict),
        (problems.CHANGED, errors.Changed),
        (problems.TOO_LARGE, errors.Refused),
        (problems.UNSUPPORTED, errors.Refused),
        (problems.KEY_REUSED, errors.KeyReused),
        (problems.TOO_MANY, errors.TooMany),
        (problems.BROKEN, errors.Unexpected),
        (problems.OVERLOADED, errors.Overloaded),
        (problems.UNAVAILABLE, errors.Unavailable),
        (problems.SLOW, errors.TimedOut),
    ],
)
async def test_a_problem_is_an_error_of_its_kind(
    fake: FakeServer, client: Transport, kind: problems.Kind, error: type[ClientError]
) -> None:
    fake.always = _problem(kind, Fault("$.a", "is required"), retry_after="1")
    with pytest.raises(ClientError) as raised:
        await client.ask("POST", "/x", body={})
    found = raised.value
    assert type(found) is error
    assert (found.status, found.kind, found.detail, str(found)) == (
        kind.status,
        kind.name,
        "in some words",
        "in some words",
    )
    assert (found.faults, found.request_id, found.retry_after) == ((Fault("$.a", "is required"),), "r-1", 1.0)
    for twin in (copy.copy(found), pickle.loads(pickle.dumps(found))):  # noqa: S301 - our own bytes
        assert (type(twin), vars(twin)) == (type(found), vars(found))


@pytest.mark.parametrize(
    ("says", "words"),
    [
        (says(404, raw=b"<html>"), "404, and not by Dispatcher"),
        (says(307, location="https://elsewhere.example/"), "307: a redirect"),
        (says(500, {"type": "about:blank"}), "500, and not by Dispatcher"),
    ],
)
async def test_answers_of_a_proxy_are_named_as_such(
    fake: FakeServer, client: Transport, says: Behaviour, words: str
) -> None:
    fake.next.append(says)
    with pytest.raises(errors.Unexpected, match=words):
        await client.ask("GET", "/x")
    assert len(fake.requests) == 1


async def test_an_answer_that_cannot_be_read_is_unexpected(fake: FakeServer, client: Transport) -> None:
    fake.next.append(says(200, raw=b"<html>"))
    with pytest.raises(errors.Unexpected):
        (await client.ask("GET", "/x")).read(dict)


@pytest.mark.parametrize("status", [200, 400])
async def test_an_answer_without_a_bottom_is_unexpected(fake: FakeServer, client: Transport, status: int) -> None:
    deep = b'{"type":"urn:dispatcher:problem:x","detail":"x","more":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    fake.next.append(says(status, raw=deep))
    with pytest.raises(errors.Unexpected):
        (await client.ask("GET", "/x")).read(_Empty)


def test_it_says_that_it_is_of_another_loop() -> None:
    """As where a program calls asyncio.run for each of its tasks."""
    client = Transport("http://127.0.0.1:9", KEY, seconds=0.1)

    async def use() -> None:
        with pytest.raises(errors.Unavailable):
            await client.ask("GET", "/x")

    async def use_again() -> None:
        with pytest.raises(RuntimeError, match="another event loop"):
            await client.ask("GET", "/x")

    async def twice() -> None:
        await use()
        # In a thread's own, while this one goes on.
        await asyncio.to_thread(asyncio.run, use_again())
        await client.aclose()

    asyncio.run(twice())


async def test_an_answer_without_an_end_is_not_read(
    fake: FakeServer, client: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "ANSWER_BYTES_MAX", 1000)
    fake.next.append(says(200, raw=b"x" * 1001))
    with pytest.raises(errors.Unexpected, match="over 1000 bytes"):
        await client.ask("GET", "/x")


async def test_a_proxy_of_the_environment_is_not_used(
    fake: FakeServer, client: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert (await client.ask("GET", "/x")).status == 200


async def test_a_cookie_is_not_kept(fake: FakeServer) -> None:
    """By its name: of a number, no cookie would be kept in any case."""
    async with aclosing(Transport(fake.url.replace("127.0.0.1", "localhost"), KEY)) as client:
        fake.next.append(says(200, {}, set_cookie="who=me; Path=/"))
        for _ in range(2):
            await client.ask("GET", "/x")
    assert [request.headers.get("cookie") for request in fake.requests] == [None, None]


def _said(error: BaseException) -> str:
    seen, text = error, ""
    while True:
        text += repr(seen) + "".join(traceback.format_exception(seen))
        before = seen.__cause__ or seen.__context__
        if before is None:
            return text
        seen = before


async def _garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readline()
    writer.write(b"220 this is no HTTP\r\n\r\n")
    await writer.drain()
    writer.close()


async def test_the_key_is_in_no_error_and_in_no_repr(fake: FakeServer) -> None:
    assert KEY not in repr(Transport(fake.url, KEY))
    server = await asyncio.start_server(_garbage, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    found: list[ClientError] = []
    for url in (f"http://127.0.0.1:{port}", "http://127.0.0.1:9", fake.url):
        async with aclosing(Transport(url, KEY, pause=Waits())) as client:
            fake.next.append(says(404))
            with pytest.raises(ClientError) as raised:
                await client.ask("POST", "/x", body={})
            found.append(raised.value)
    server.close()
    assert [type(one) for one in found] == [errors.Unexpected, errors.Unavailable, errors.Unexpected]
    for one in found:
        assert KEY not in _said(one)
    with pytest.raises(errors.Refused) as refused:
        Transport(fake.url, KEY + "\r\nx: y")
    assert KEY not in _said(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.org",
        "ftp://example.org",
        "https://",
        "https://u:p@example.org",
        "https://h:x",
        "https://a..b",
        "https://h/?a",
        "h:1",
    ],
)
def test_invalid_server_addresses_are_refused(url: str) -> None:
    with pytest.raises(errors.Refused) as raised:
        Transport(url, KEY)
    assert [fault.path for fault in raised.value.faults] == ["url"]


@pytest.mark.parametrize("body", [object(), {1j: 2}, "\ud800"])
async def test_invalid_json_is_refused_before_it_is_sent(fake: FakeServer, client: Transport, body: Any) -> None:
    with pytest.raises(errors.Refused):
        await client.ask("POST", "/x", body=body)
    assert fake.requests == []


async def test_a_closed_one_asks_nothing(fake: FakeServer, waits: Waits) -> None:
    client = Transport(fake.url, KEY, pause=waits)
    await client.ask("GET", "/x")
    await client.aclose()
    with pytest.raises(errors.Closed, match="closed"):
        await client.ask("GET", "/x")
    assert len(fake.requests) == 1
    assert waits.seconds == []


def test_every_error_is_drawn_in_the_tree() -> None:
    tree = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, ClientError)]
    assert [one.__name__ for one in tree if one.__name__ not in (errors.__doc__ or "")] == []
    assert all(str(one()) == one.__doc__ for one in tree)


def test_a_reply_is_read_as_what_it_is() -> None:
    assert Reply(200, {}, b"[1]").read(list[int]) == [1]
    assert msgspec.json.decode(Reply(200, {}, b'{"a": 1}').body) == {"a": 1}


def test_nothing_is_asked_of_what_has_no_name() -> None:
    """Its path would be that of the whole list."""
    with pytest.raises(errors.NotFound):
        transport.segment("")
