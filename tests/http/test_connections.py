"""Connections: what two readers could read in two ways is refused, and nobody keeps others out by being slow."""

import asyncio
import json
import select
import socket

import psutil
import pytest

from dispatcher.http.server.admission import KEY_REQUESTS_AT_ONCE_MAX
from tests.http import wire
from tests.support.caller import Caller, delivery, make_key
from tests.support.program import Program
from tests.support.scene import Connection
from tests.support.waits import until, until_blocked

PAUSE = "POST /runs/1/pause"
WHY = b'{"reason": "x"}'
CHUNKED = ("Content-Type: application/json", "Transfer-Encoding: chunked")
CLOSE = "Connection: close"
SIZE = b"%x\r\n" % len(WHY)
# Of half-open requests, and of such whose body does not come.
CROWD = 250
LATER = "2040-01-01T00:00:00Z"


def _chunked(caller: Caller, body: bytes, *headers: str) -> bytes:
    return wire.head(caller, PAUSE, *CHUNKED, *headers) + b"\r\n" + body


def _is_refused(said: bytes, status: int = 400) -> None:
    """Once, as a problem, and nothing behind it is read."""
    assert wire.statuses(said) == [status], said
    assert wire.last(said)["status"] == status
    assert b"connection: close" in said
    assert b"application/problem+json" in said


@pytest.mark.parametrize(
    "headers",
    [
        ("Content-Length: 2", "Transfer-Encoding: chunked"),
        ("Content-Length: 15", "Content-Length: 15"),
        ("Content-Length: 15, 15",),
        ("Content-Length: +15",),
        ("Content-Length: -1",),
        ("Content-Length: 15 ", "Content-Length: 0"),
        ("Content-Length: 0x0f",),
        ("Content-Length: 99999999999999999999999",),
        ("Transfer-Encoding: chunked", "Transfer-Encoding: identity"),
        ("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: xchunked",),
        ("Transfer-Encoding: gzip, chunked",),
        ("Transfer-Encoding: identity",),
        ("Transfer-Encoding : chunked",),
        ("Host: y",),
        ("Authorization: Bearer x",),
        ("Idempotency-Key: a", "Idempotency-Key: b"),
        ("If-Match: a", "If-Match: b"),
        ("Content-Type: text/plain", "Content-Type: application/json"),
        ("Content-Encoding: identity", "Content-Encoding: gzip"),
        ("Expect: 100-continue", "Expect: 100-continue"),
        ("X-A: b\r\n c",),
        ("X-A: b\rX-B: c",),
        ("X-A: a\0b",),
        ("X\0A: b",),
        ("\tX: y",),
        (": y",),
        ("X Y: z",),
    ],
    ids=repr,
)
async def test_a_head_that_can_be_read_in_two_ways_is_refused(admin: Caller, headers: tuple[str, ...]) -> None:
    smuggled = wire.head(admin, "GET /runs?limit=2") + b"\r\n"
    _is_refused(wire.talk(admin.program, wire.head(admin, PAUSE, *headers) + b"\r\n" + WHY + smuggled))


@pytest.mark.parametrize(
    "line",
    [
        "GET /runs HTTP/2.0",
        "GET /runs HTTP/1.2",
        "GET /runs",
        "GET /runs /runs HTTP/1.1",
        "GET runs HTTP/1.1",
        "GET http://evil.example HTTP/1.1",
        "CONNECT evil.example:80 HTTP/1.1",
        "get /runs HTTP/1.1",
        "BREW /runs HTTP/1.1",
        "GET /r\xfcns HTTP/1.1",
        "PRI * HTTP/2.0",
        "A" * 5_000,
    ],
)
async def test_an_invalid_line_of_http_is_refused(admin: Caller, line: str) -> None:
    rest = f"\r\nHost: x\r\nAuthorization: Bearer {admin.key}\r\n\r\n"
    _is_refused(wire.talk(admin.program, (line + rest).encode("latin-1")))


async def test_lines_end_as_they_have_to(admin: Caller) -> None:
    _is_refused(wire.talk(admin.program, (wire.head(admin) + b"\r\n").replace(b"\r\n", b"\n")))


async def test_a_head_without_a_host_is_refused_unless_it_is_older(admin: Caller) -> None:
    for version, status in (("1.1", 400), ("1.0", 200)):
        said = wire.talk(admin.program, wire.head(admin, version=version).replace(b"Host: x\r\n", b"") + b"\r\n")
        assert wire.statuses(said) == [status]
        assert b"connection: close" in said
    old = wire.head(admin, PAUSE, *CHUNKED, version="1.0") + b"\r\n" + SIZE + WHY + b"\r\n0\r\n\r\n"
    _is_refused(wire.talk(admin.program, old))


@pytest.mark.parametrize(
    "body",
    [
        b"0x0f\r\n" + WHY + b"\r\n0\r\n\r\n",
        b"-1\r\n" + WHY + b"\r\n0\r\n\r\n",
        b"+f\r\n" + WHY + b"\r\n0\r\n\r\n",
        b"g\r\n" + WHY + b"\r\n0\r\n\r\n",
        b"fffffffffffffffff\r\n" + WHY + b"\r\n0\r\n\r\n",
        SIZE + WHY + b"0\r\n\r\n",
        b"f\n" + WHY + b"\n0\n\n",
        b"f;a\nb\r\n" + WHY + b"\r\n0\r\n\r\n",
        b"\r\n" + WHY,
    ],
)
async def test_invalid_chunks_are_refused(admin: Caller, body: bytes) -> None:
    _is_refused(wire.talk(admin.program, _chunked(admin, body)))
    assert not admin.program.events("api.failed")


async def test_bytes_after_a_body_are_not_read_as_a_head(admin: Caller) -> None:
    """A proxy that has looked at the head has not seen it."""
    sound = SIZE[:-2] + b";a=b\r\n" + WHY + b"\r\n0\r\n"
    assert wire.statuses(wire.talk(admin.program, _chunked(admin, sound + b"\r\n", CLOSE))) == [404]
    nobody = _chunked(admin, sound, CLOSE).replace(f"Authorization: Bearer {admin.key}\r\n".encode(), b"")
    trailer = f"Authorization: Bearer {admin.key}\r\n\r\n".encode()
    assert wire.statuses(wire.talk(admin.program, nobody + trailer)) == [401]


async def test_a_head_has_so_many_bytes_and_fields(admin: Caller) -> None:
    for more in (["X-A: " + "x" * 70_000], [f"X-{number}: y" for number in range(120)], ["Cookie: " + "a" * 65_530]):
        _is_refused(wire.talk(admin.program, wire.head(admin, "GET /runs", *more) + b"\r\n"), 431)
    _is_refused(wire.talk(admin.program, wire.head(admin, "GET /" + "x" * 66_000) + b"\r\n"), 431)
    with wire.connected(admin.program) as endless:
        endless.sendall(wire.head(admin))
        for _ in range(20):
            endless.sendall(b"X-More: " + b"x" * 8_000 + b"\r\n")
        _is_refused(wire.read(endless), 431)
    fits = wire.head(admin, "GET /runs", CLOSE, *(f"X-{number}: {'y' * 500}" for number in range(90)))
    assert wire.statuses(wire.talk(admin.program, fits + b"\r\n")) == [200]


async def test_requests_in_a_row_are_answered_in_their_order_and_nothing_behind_garbage(admin: Caller) -> None:
    get, post = wire.head(admin) + b"\r\n", wire.whole(admin, PAUSE, WHY)
    closing = wire.head(admin, "GET /nothing", CLOSE) + b"\r\n"
    assert wire.statuses(wire.talk(admin.program, get + post + get + closing)) == [200, 404, 200, 404]
    assert wire.statuses(wire.talk(admin.program, closing + get)) == [404]
    garbage = wire.talk(admin.program, post + get + b"garbage\r\n\r\n" + get)
    assert wire.statuses(garbage) == [404, 200]
    assert garbage.count(b"connection: close") == 1


async def test_bytes_after_the_content_length_are_not_part_of_the_body(admin: Caller) -> None:
    longer = wire.whole(admin, PAUSE, WHY) + b'{"reason": "y"}'
    assert wire.statuses(wire.talk(admin.program, longer)) == [404]
    hidden = (
        wire.head(admin, "GET /runs", "Content-Length: 40")
        + b"\r\n"
        + b"GET /smuggled HTTP/1.1\r\nHost: x\r\n".ljust(40)
    )
    assert wire.statuses(wire.talk(admin.program, hidden + wire.head(admin, "GET /runs", CLOSE) + b"\r\n")) == [
        200,
        200,
    ]


async def test_another_protocol_is_not_spoken_and_the_request_is_served(admin: Caller) -> None:
    wish = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA")
    asked = [
        wire.head(admin, "GET /runs", *wish) + b"\r\n",
        wire.whole(admin, PAUSE, WHY, *wish),
        _chunked(admin, SIZE + WHY + b"\r\n0\r\n\r\n", *wish),
        wire.head(admin, "GET /runs", CLOSE) + b"\r\n",
    ]
    assert wire.statuses(wire.talk(admin.program, b"".join(asked))) == [200, 404, 404, 200]
    with wire.connected(admin.program) as slow:
        slow.sendall(asked[1][:-5])
        assert Caller(admin.program, admin.key).get("/runs").status == 200
        slow.sendall(asked[1][-5:] + asked[3])
        assert wire.statuses(wire.read(slow)) == [404, 200]


async def test_an_address_of_elsewhere_is_ours(admin: Caller) -> None:
    said = wire.talk(admin.program, wire.head(admin, "GET http://evil.example/runs?limit=1", CLOSE) + b"\r\n")
    assert wire.statuses(said) == [200]
    assert wire.statuses(wire.talk(admin.program, wire.head(admin, "OPTIONS *", CLOSE) + b"\r\n")) == [404]


async def test_expect_continue_is_answered_before_the_body(admin: Caller) -> None:
    asking = f"Content-Length: {len(WHY)}", "Content-Type: application/json", "Expect: 100-continue"
    refused = wire.head(Caller(admin.program, "x"), PAUSE, *asking) + b"\r\n"
    said = wire.talk(admin.program, refused)
    assert wire.statuses(said) == [401]
    # What comes next could not be told from the body: the connection is of no more use.
    assert b"connection: close" in said
    with wire.connected(admin.program) as connection:
        connection.sendall(wire.head(admin, PAUSE, CLOSE, *asking) + b"\r\n")
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(WHY)
        assert wire.statuses(wire.read(connection)) == [404]


async def test_a_too_large_body_is_refused_while_it_is_sent(admin: Caller) -> None:
    large = b'{"reason": "' + b"x" * (6 * 1024 * 1024) + b'"}'
    assert admin.call("POST", "/runs/1/pause", large).status == 413
    with wire.connected(admin.program) as connection:
        connection.sendall(wire.head(admin, PAUSE, "Content-Type: text/plain", "Content-Length: 50000000") + b"\r\n")
        connection.sendall(b"x" * 1_000_000)
        assert b"HTTP/1.1 415" in connection.recv(4_096)


async def test_a_client_that_closes_its_writing_side_gets_the_answer(admin: Caller, inside: Connection) -> None:
    body = json.dumps(delivery("half-closed", scheduled_for=LATER)).encode()
    said = wire.talk(admin.program, wire.whole(admin, "POST /deliveries", body), half_closed=True)
    assert (wire.statuses(said), wire.last(said)["idempotency_key"]) == ([201], "half-closed")
    both = wire.whole(admin, PAUSE, WHY) + wire.head(admin) + b"\r\n"
    assert wire.statuses(wire.talk(admin.program, both, half_closed=True)) == [404, 200]
    cut = wire.whole(admin, "POST /deliveries", body.replace(b"half-closed", b"cut"))[:-1]
    assert wire.talk(admin.program, cut, half_closed=True) == b""
    assert await inside.fetchval("SELECT count(*) FROM dispatcher.deliveries WHERE idempotency_key = 'cut'") == 0


def _open(program: Program) -> int:
    """How many connections it has to its callers."""
    assert program.process is not None
    port = int(program.address.rpartition(":")[2])
    return sum(
        one.status != psutil.CONN_LISTEN and one.laddr.port == port
        for one in psutil.Process(program.process.pid).net_connections("inet")
    )


async def test_a_disconnected_request_is_whole_or_rolled_back(admin: Caller, inside: Connection) -> None:
    many = {"deliveries": [delivery(f"gone-{number}", scheduled_for=LATER) for number in range(200)]}
    sent = wire.whole(admin, "POST /deliveries/batch", json.dumps(many).encode())
    for number in range(20):
        with wire.connected(admin.program) as connection:
            connection.sendall(sent[: len(sent) - number // 10])
            # At once, and without a word.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    # One that stays, so that what went before it has been looked at.
    assert wire.statuses(wire.talk(admin.program, sent, half_closed=True)) == [200]

    async def whole() -> bool:
        count = "SELECT count(*) FROM dispatcher.deliveries WHERE idempotency_key LIKE 'gone-%'"
        return bool(await inside.fetchval(count) == 200)

    await until(whole, "all of them are there")
    await admin.program.until(lambda: _open(admin.program) == 0, "nobody is connected")
    assert not admin.program.events("api.failed") + admin.program.events("http.failed")


async def test_a_head_that_does_not_come_is_not_waited_for(program: Program) -> None:
    await program.start(DISPATCHER_HTTP__HEAD_SECONDS_MAX="0.3")
    caller = Caller(program, make_key(program))
    _is_refused(wire.talk(program, wire.head(caller)), 408)
    assert wire.talk(program, b"") == b""
    # The first was answered, the second is late.
    late = wire.talk(program, wire.head(caller) + b"\r\n" + wire.head(caller))
    assert wire.statuses(late) == [200, 408]
    with wire.connected(program) as dripping:
        dripping.sendall(wire.head(caller))

        def refused() -> bool:
            dripping.sendall(b"X: y\r\n")
            return bool(dripping.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))

        await program.until(lambda: _or_not(refused), "one that comes by the bit is refused too")
        _is_refused(wire.read(dripping), 408)


def _or_not(holds: object) -> bool:
    try:
        return bool(holds())  # type: ignore[operator]  # what the caller gives is called here
    except BlockingIOError:
        return False


@pytest.mark.parametrize("places", [32, 500])
async def test_half_open_requests_block_no_others(program: Program, places: int) -> None:
    await program.start(DISPATCHER_HTTP__CONNECTIONS_MAX=str(places), DISPATCHER_HTTP__HEAD_SECONDS_MAX="600")
    caller = Caller(program, make_key(program))
    with wire.many(program, CROWD, wire.head(caller)):
        assert [caller.get("/runs").status for _ in range(5)] == [200] * 5
        assert program.get("/healthz")[0] == 200
        await program.until(lambda: _open(program) <= places, "there are no more than have a place")


async def test_a_crowd_of_connections_does_not_end_served_requests(program: Program, connection: Connection) -> None:
    places = 32
    await program.start(DISPATCHER_HTTP__CONNECTIONS_MAX=str(places), DISPATCHER_HTTP__HEAD_SECONDS_MAX="600")
    caller = Caller(program, make_key(program))
    async with connection.transaction():
        locked = "SELECT dispatcher.enqueue_delivery('sms', '+4917012345', 'locked', '{\"body\": \"x\"}')"
        await connection.execute(locked)
        asked = asyncio.create_task(asyncio.to_thread(caller.post, "/deliveries", delivery("locked")))
        await until_blocked(connection)
        with wire.many(program, CROWD, wire.head(caller)):
            await program.until(lambda: _open(program) <= places, "there are no more than have a place")
            assert caller.get("/runs").status == 200
    assert (await asked).status == 200


@pytest.mark.parametrize("places", [32, 500])
async def test_refused_connections_with_endless_bodies_block_no_others(program: Program, places: int) -> None:
    await program.start(DISPATCHER_HTTP__CONNECTIONS_MAX=str(places))
    caller = Caller(program, make_key(program))
    nobody = b"POST /deliveries HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"
    with wire.many(program, CROWD, nobody):
        assert [caller.get("/runs").status for _ in range(5)] == [200] * 5
        assert program.get("/healthz")[0] == 200
        await program.until(lambda: _open(program) < places / 2, "who goes on is not listened to for long")


async def test_requests_without_their_bodies_block_no_other_key(program: Program) -> None:
    await program.start(DISPATCHER_API__BODY_SECONDS_MAX="600", DISPATCHER_API__REQUEST_SECONDS_MAX="600")
    crowd, other = (Caller(program, make_key(program)) for _ in range(2))
    half = wire.head(crowd, PAUSE, "Content-Type: application/json", "Content-Length: 15") + b"\r\n{"
    with wire.many(program, CROWD, half) as sent:
        # Nobody else asks meanwhile: what is being answered has a place, which one of the crowd would not get.
        refused = CROWD - KEY_REQUESTS_AT_ONCE_MAX
        await program.until(lambda: len(select.select(sent, (), (), 0)[0]) == refused, "its places are taken")
        answer = crowd.get("/runs")
        assert answer.headers["retry-after"] == "1"
        assert "being served" in answer.json["detail"]
        assert other.get("/runs").status == 200
    await program.until(lambda: crowd.get("/runs").status == 200, "its places are free again")
