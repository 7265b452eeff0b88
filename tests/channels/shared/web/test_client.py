"""Properties of the client, over real sockets: where it connects, how much it reads, and how far a call came."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver

from channels.shared.web.client import Answer, Bounds, Call, Client, LicenceOver, Lost
from channels.shared.web.guard import Guard
from tests.channels.shared.web.fake_server import (
    ELSEWHERE,
    LOOPBACK,
    METADATA,
    Endless,
    FakeResolver,
    FakeServer,
    Silent,
    dropped,
    half,
    says,
)
from tests.channels.smtp.certificates import Authority
from tests.channels.smtp.support import envelope
from tests.support.waits import until

BOUNDS = Bounds(connections=4, answer_bytes_max=1024, keep_seconds=4.0)


@pytest.fixture
async def fake() -> AsyncIterator[FakeServer]:
    """A server that answers with an empty object."""
    async with FakeServer(says(200, {})) as fake:
        yield fake


def call(url: str, seconds: float | None = None, body: bytes = b"{}") -> Call:
    return Call([envelope()], url, {}, body, seconds)


async def posted(
    one: Call, allowed: str = LOOPBACK, resolver: AbstractResolver | None = None, times: int = 1
) -> list[Answer | Lost]:
    client = Client(Guard(allowed), BOUNDS, resolver)
    try:
        return [await client.post(one) for _ in range(times)]
    finally:
        await client.close()


async def test_it_posts_what_it_is_given(fake: FakeServer) -> None:
    one = Call([envelope()], fake.url + "?a=1", {"X-Key": "k"}, b'{"a": 1}')
    (answer,) = await posted(one)
    assert isinstance(answer, Answer)
    assert (answer.status, answer.body, answer.cut_off) == (200, b"{}", False)
    assert one.written
    (request,) = fake.requests
    assert (request.method, request.path, request.body) == ("POST", "/call?a=1", b'{"a": 1}')
    assert request.headers["x-key"] == "k"
    assert request.headers["user-agent"] == "dispatcher"
    assert request.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "[::ffff:127.0.0.1]",
        "localhost",
        "2130706433",
        "0x7f.1",
        "127.1",
        "0177.0.0.1",
        "127.0.0.1.",
        "0",
        "[::]",
    ],
)
async def test_no_way_to_write_an_address_gets_around_the_guard(fake: FakeServer, host: str) -> None:
    (answer,) = await posted(call(f"http://{host}:{fake.port}/"), allowed="")
    assert isinstance(answer, Lost)
    assert not answer.written
    assert fake.requests == []


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["127.0.0.1", "::1"], ["::ffff:127.0.0.1"], ["10.0.0.1", "127.0.0.1"]]
)
async def test_a_name_that_leads_to_a_private_address_is_not_called(fake: FakeServer, addresses: list[str]) -> None:
    (answer,) = await posted(call("http://public.example/"), allowed="", resolver=FakeResolver(fake.port, addresses))
    assert isinstance(answer, Lost)
    assert answer.forbidden
    assert fake.requests == []


async def test_a_name_that_changes_its_mind_is_judged_each_time(fake: FakeServer) -> None:
    """First an address that is allowed, then another one: what stood in the first answer is of no help."""
    fake.always = says(200, {}, Connection="close")
    lying = FakeResolver(fake.port, [ELSEWHERE], ["127.0.0.1"])
    client = Client(Guard(ELSEWHERE), BOUNDS, lying)
    first = await client.post(call(f"http://one.example:{fake.port}/"))
    # Another name, so that no resolver's memory stands between.
    second = await client.post(call(f"http://two.example:{fake.port}/"))
    await client.close()
    assert isinstance(first, Answer)
    assert isinstance(second, Lost)
    assert second.forbidden
    assert lying.asked == ["one.example", "two.example"]
    assert len(fake.requests) == 1


async def test_of_several_addresses_the_allowed_one_is_used(fake: FakeServer) -> None:
    (answer,) = await posted(call("http://a.example/"), ELSEWHERE, FakeResolver(fake.port, ["127.0.0.1", ELSEWHERE]))
    assert isinstance(answer, Answer)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_an_answer_and_nothing_more(fake: FakeServer, status: int) -> None:
    for location in (METADATA, f"http://127.0.0.1:{fake.port}/other"):
        fake.next.append(says(status, {}, Location=location))
        (answer,) = await posted(call(fake.url))
        assert isinstance(answer, Answer)
        assert answer.status == status
    assert [request.path for request in fake.requests] == ["/call", "/call"]


async def test_an_endless_answer_is_read_up_to_the_bound(fake: FakeServer) -> None:
    endless = Endless()
    fake.always = endless
    (answer,) = await posted(call(fake.url))
    assert isinstance(answer, Answer)
    assert (answer.body, answer.cut_off) == (None, False)
    await asyncio.wait_for(endless.stopped.wait(), 60)
    # What is in flight when it closes lies in the buffers of two sockets.
    assert endless.written < 64 * 1024 * 1024


async def test_an_answer_at_the_bound_is_whole(fake: FakeServer) -> None:
    for size, body in ((1024, b"x" * 1024), (1025, None)):
        fake.next.append(says(200, raw=b"x" * size))
        (answer,) = await posted(call(fake.url))
        assert isinstance(answer, Answer)
        assert answer.body == body


async def test_half_an_answer_is_told_from_a_whole_one(fake: FakeServer) -> None:
    fake.next.append(half(200))
    (answer,) = await posted(call(fake.url))
    assert isinstance(answer, Answer)
    assert (answer.status, answer.body, answer.cut_off) == (200, None, True)


@pytest.mark.parametrize("head", [False, True])
async def test_silence_ends_with_the_time_out(fake: FakeServer, head: bool) -> None:
    silent = Silent(head)
    fake.always = silent
    (answer,) = await posted(call(fake.url, seconds=0.2))
    silent.let_go.set()
    if head:
        assert answer == Answer(200, answer.headers, None, cut_off=True)  # type: ignore[union-attr]  # it is one
    else:
        assert answer == Lost(written=True, why="waited 0.2 s for the answer")


@pytest.mark.parametrize(("head", "sized"), [(False, True), (True, True), (True, False)])
async def test_what_is_cut_off_leaves_no_connection_behind(fake: FakeServer, head: bool, sized: bool) -> None:
    # In debug mode an answer that is dropped with its connection complains.
    asyncio.get_running_loop().set_debug(True)
    silent = Silent(head, sized)
    fake.next.append(silent)
    client = Client(Guard(LOOPBACK), Bounds(1, 1024, 4.0))
    await client.post(call(fake.url, seconds=0.2))
    answer = await client.post(call(fake.url, seconds=10.0))
    silent.let_go.set()
    await client.close()
    assert answer == Answer(200, answer.headers, b"{}")  # type: ignore[union-attr]  # it is one


async def test_a_connection_that_does_not_come_is_told_from_an_answer(
    fake: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hanging(*_: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(aiohttp.TCPConnector, "connect", hanging)
    assert await posted(call(fake.url)) == [Lost(written=False, why="waited 10 s for a connection")]


async def test_a_lost_connection_tells_whether_the_request_was_sent(fake: FakeServer) -> None:
    fake.next.append(dropped)
    (answer,) = await posted(call(fake.url))
    assert isinstance(answer, Lost)
    assert answer.written
    (answer,) = await posted(call("http://127.0.0.1:1/"))
    assert isinstance(answer, Lost)
    assert not answer.written
    assert not answer.forbidden


async def test_a_server_whose_certificate_nobody_vouches_for_gets_nothing(tmp_path: Path) -> None:
    own = Authority(tmp_path).sign("server")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(own.certificate, own.key)
    async with FakeServer(says(200, {}), tls) as fake:
        answers = await posted(call(fake.url))
    assert answers == [Lost(written=False, why="ClientConnectorCertificateError")]
    assert fake.requests == []


async def test_nothing_is_written_once_the_licence_is_over(fake: FakeServer) -> None:
    one = Call([envelope(clock=lambda: 10.0)], fake.url, {}, b"{}")
    client = Client(Guard(LOOPBACK), BOUNDS)
    with pytest.raises(LicenceOver):
        await client.post(one)
    await client.close()
    assert not one.written
    assert fake.requests == []


async def test_calls_wait_for_their_turn(fake: FakeServer) -> None:
    silent = Silent()
    fake.always = silent
    client = Client(Guard(LOOPBACK), Bounds(2, 1024, 4.0))
    calling = [asyncio.create_task(client.post(call(fake.url))) for _ in range(6)]
    await until(lambda: len(fake.requests) == 2, "two have begun")
    silent.let_go.set()
    answers = await asyncio.gather(*calling)
    await client.close()
    assert all(isinstance(answer, Answer) for answer in answers)
    assert len(fake.requests) == 6


async def test_a_call_has_its_time_from_its_turn_on(fake: FakeServer) -> None:
    silent = Silent()
    fake.next.append(silent)
    client = Client(Guard(LOOPBACK), Bounds(1, 1024, 4.0))
    first = asyncio.create_task(client.post(call(fake.url, seconds=2.0)))
    await until(silent.begun.is_set, "it has begun")
    second = await client.post(call(fake.url, seconds=2.0))
    silent.let_go.set()
    await client.close()
    assert isinstance(await first, Lost)
    assert isinstance(second, Answer)


async def test_nothing_in_the_environment_leads_elsewhere(fake: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    (answer,) = await posted(call(fake.url))
    assert isinstance(answer, Answer)


async def test_calls_after_close_open_no_connection(fake: FakeServer) -> None:
    client = Client(Guard(LOOPBACK), BOUNDS)
    assert isinstance(await client.post(call(fake.url)), Answer)
    await client.close()
    assert await client.post(call(fake.url)) == Lost(written=False, why="ClientConnectionError")
    assert len(fake.requests) == 1


async def test_cookies_are_not_kept(fake: FakeServer) -> None:
    fake.next.append(says(200, {}, Set_Cookie="a=b"))
    await posted(call(fake.url), times=2)
    assert "cookie" not in fake.requests[1].headers
