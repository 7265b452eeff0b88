"""Limits of the door: size, depth, form and time of a request, how often a key is used, and how much is waiting."""

import asyncio
import gzip
import json
import socket
from urllib.parse import urlsplit

import pytest

from tests.support.caller import Answer, Caller, delivery, make_key
from tests.support.program import Program
from tests.support.scene import Connection
from tests.support.waits import until_blocked

PROBLEM = "application/problem+json"


def _is_problem(answer: Answer, status: int, name: str) -> None:
    assert (answer.status, answer.headers["content-type"]) == (status, PROBLEM), answer
    assert answer.json["type"] == f"urn:dispatcher:problem:{name}"
    assert answer.json["request_id"] == answer.headers["x-request-id"]


async def test_a_too_large_body_is_refused_with_or_without_content_length(program: Program) -> None:
    await program.start(DISPATCHER_API__BODY_BYTES_MAX="2000", DISPATCHER_API__BATCH_BYTES_MAX="4000")
    caller = Caller(program, make_key(program))
    assert caller.post("/deliveries", delivery("small")).status == 201
    _is_problem(caller.post("/deliveries", delivery("large", body="x" * 2_000)), 413, "too-large")
    assert caller.post("/deliveries/batch", {"deliveries": [delivery("more", body="x" * 2_000)]}).status == 200
    head = _head(caller.key) + "Transfer-Encoding: chunked\r\n\r\n"
    said = _talk(program, head.encode() + b"800\r\n" + b" " * 2_048 + b"\r\n0\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 413")


def _head(key: str | None) -> str:
    return f"POST /deliveries HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"


def _talk(program: Program, sent: bytes, half_closed: bool = False) -> bytes:
    """The answer to these bytes, up to the end of the head."""
    place = urlsplit(program.address)
    with socket.create_connection((place.hostname, place.port), timeout=20) as connection:
        connection.sendall(sent)
        if half_closed:
            connection.shutdown(socket.SHUT_WR)
        said = b""
        while b"\r\n\r\n" not in said and (some := connection.recv(65_536)):
            said += some
        return said


async def test_a_body_that_does_not_come_is_not_waited_for(program: Program) -> None:
    await program.start(DISPATCHER_API__BODY_SECONDS_MAX="0.3")
    key = make_key(program)
    slow = (_head(key) + "Content-Length: 100\r\n\r\n{").encode()
    assert _talk(program, slow).startswith(b"HTTP/1.1 408")
    # Whoever has closed its half has no answer, and does no harm.
    _talk(program, slow, half_closed=True)
    assert Caller(program, key).get("/runs").status == 200
    assert not program.events("api.failed")


async def test_two_lengths_are_refused(admin: Caller) -> None:
    head = _head(admin.key)
    both = (
        head + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /runs HTTP/1.1\r\nHost: x\r\n\r\n"
    )
    twice = head + "Content-Length: 2\r\nContent-Length: 30\r\n\r\n{}"
    for smuggled in (both, twice):
        assert _talk(admin.program, smuggled.encode()).startswith(b"HTTP/1.1 400")


async def test_a_body_needs_the_json_media_type(admin: Caller) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = admin.call("POST", "/deliveries", b"{}", [("content-type", kind)])
        _is_problem(answer, 415, "unsupported-media-type")
    answer = admin.call("POST", "/deliveries", gzip.compress(b"{}"), [("content-encoding", "gzip")])
    _is_problem(answer, 415, "unsupported-media-type")
    answer = admin.call(
        "POST", "/runs/1/pause", b'{"reason": "x"}', [("content-type", "application/json; charset=utf-8")]
    )
    assert answer.status == 404


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (b"[" * 100_000, "$"),
        (b"nonsense", "$"),
        (b'{"reason": "a", "reason": "b"}', "$.reason"),
        (b'{"reason": "a", "raeson": "b"}', "$.raeson"),
        (b'{"reason": 7}', "$.reason"),
        (b'{"reason": " "}', "$.reason"),
        (b'{"reason": "\\u0000"}', "$.reason"),
        (b"{}", "$.reason"),
        (b"", "$"),
    ],
)
async def test_a_faulty_body_is_refused_with_the_path_to_each_fault(admin: Caller, body: bytes, path: str) -> None:
    answer = admin.call("POST", "/runs/1/pause", body)
    _is_problem(answer, 400, "faulty-request")
    assert path in answer.faults


async def test_of_a_thousand_faults_a_hundred_are_told_and_how_many_more(admin: Caller) -> None:
    answer = admin.post("/runs/1/pause", {"reason": "x"} | {f"f{number}": 1 for number in range(1_000)})
    _is_problem(answer, 400, "faulty-request")
    assert (len(answer.json["faults"]), answer.json["more_faults"]) == (100, 900)


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("limit=0", "query.limit"),
        ("limit=x", "query.limit"),
        ("limit=1&limit=2", "query.limit"),
        ("life=dead", "query.life"),
        ("chanel=sms", "query.chanel"),
        ("cursor=nonsense", "query.cursor"),
        ("channel=%00", "query.channel"),
    ],
)
async def test_a_faulty_parameter_is_named(admin: Caller, query: str, path: str) -> None:
    answer = admin.get(f"/deliveries?{query}")
    _is_problem(answer, 400, "faulty-request")
    assert list(answer.faults) == [path]


async def test_all_faults_of_a_request_are_reported_at_once(admin: Caller) -> None:
    twice = b'{"reason": "a", "reason": "b", "why": 1}'
    answer = admin.call("POST", "/runs/1/pause?now=1", twice, [("idempotency-key", "a b")])
    _is_problem(answer, 400, "faulty-request")
    assert list(answer.faults) == ["query.now", "header.Idempotency-Key", "$.reason", "$.why"]
    # Also where a body is read by the endpoint itself.
    answer = admin.post("/deliveries?now=1", {"chanel": "sms"})
    assert {"query.now", "$.chanel"} <= set(answer.faults)


async def test_a_missing_resource_is_a_problem(admin: Caller) -> None:
    _is_problem(admin.get("/nothing"), 404, "not-found")
    _is_problem(admin.call("DELETE", "/runs"), 405, "method-not-allowed")
    for number in ("0", "-1", "x", "9" * 30, "1e3", "%00", "\u0663".encode().hex()):
        _is_problem(admin.get(f"/runs/{number}"), 404, "not-found")


async def test_a_request_has_the_id_that_it_came_with_or_one_of_ours(admin: Caller) -> None:
    assert admin.get("/runs", x_request_id="trace-17").headers["x-request-id"] == "trace-17"
    made = {admin.get("/runs", x_request_id=bad).headers["x-request-id"] for bad in ("", "a b", "x" * 65, "<script>")}
    assert len(made) == 4
    assert all(one.isalnum() for one in made)


async def test_long_answers_are_compressed_for_clients_that_accept_it(admin: Caller) -> None:
    plain = admin.get("/openapi.json")
    short = admin.get("/openapi.json", accept_encoding="gzip")
    assert short.headers["content-encoding"] == "gzip"
    assert gzip.decompress(short.body) == plain.body
    assert "content-encoding" not in plain.headers
    assert (
        admin.post("/deliveries/batch", {"deliveries": [delivery(f"g{number}") for number in range(9)]}).status == 200
    )
    deliveries = admin.get("/deliveries", accept_encoding="gzip")
    assert deliveries.headers["content-encoding"] == "gzip"
    assert b'"g8"' in gzip.decompress(deliveries.body)


@pytest.mark.parametrize(
    ("said", "compressed"),
    [
        ("GZIP", True),
        ("br;q=1.0, gzip;q=0.5", True),
        ("*", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000, *", False),
        ("identity, *;q=0", False),
        ("gzip;q=nonsense", False),
        ("notgzip", False),
        ("", False),
    ],
)
async def test_a_client_that_does_not_accept_the_type_is_refused(admin: Caller, said: str, compressed: bool) -> None:
    answer = admin.get("/openapi.json", accept_encoding=said)
    assert (answer.headers.get("content-encoding") == "gzip") is compressed


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_probes_may_ask_for_the_head_alone(admin: Caller, path: str) -> None:
    answer = admin.call("HEAD", path)
    assert (answer.status, answer.body) == (200, b"")


async def test_no_origin_may_call_that_is_not_configured(admin: Caller, program: Program) -> None:
    assert "access-control-allow-origin" not in admin.get("/runs", origin="https://shop.example.org").headers
    await program.start(DISPATCHER_API__ALLOW_ORIGINS="https://shop.example.org https://b.example.org")
    caller = Caller(program, make_key(program))
    ours = caller.get("/runs", origin="https://shop.example.org").headers
    assert ours["access-control-allow-origin"] == "https://shop.example.org"
    assert "access-control-allow-origin" not in caller.get("/runs", origin="https://shop.example.org.evil.org").headers
    asked = caller.call(
        "OPTIONS",
        "/runs",
        headers=[("origin", "https://b.example.org"), ("access-control-request-method", "GET")],
    )
    assert asked.headers["access-control-allow-origin"] == "https://b.example.org"
    may_send = set(asked.headers["access-control-allow-headers"].lower().split(", "))
    assert {"authorization", "content-type", "idempotency-key", "if-match", "x-request-id"} <= may_send
    may_see = set(
        caller.get("/runs", origin="https://b.example.org").headers["access-control-expose-headers"].split(", ")
    )
    assert {"etag", "idempotency-replayed", "retry-after", "x-request-id"} <= may_see


async def test_a_key_that_is_used_too_often_has_to_wait_and_others_do_not(program: Program) -> None:
    await program.start(DISPATCHER_API__KEY_RATE_PER_SECOND="0.01", DISPATCHER_API__KEY_RATE_BURST="3")
    caller, other = Caller(program, make_key(program)), Caller(program, make_key(program))
    assert [caller.get("/runs").status for _ in range(3)] == [200, 200, 200]
    answer = caller.get("/runs")
    _is_problem(answer, 429, "too-many-requests")
    assert 1 <= int(answer.headers["retry-after"]) <= 300
    assert other.get("/runs").status == 200


async def test_no_more_work_is_taken_while_too_much_waits(program: Program, connection: Connection) -> None:
    await program.start(
        DISPATCHER_API__SHED_AFTER_SECONDS="60",
        DISPATCHER_CHANNELS__VOICE__PROVIDER="blackhole",
        DISPATCHER_CHANNELS__VOICE__RATE_PER_SECOND="0.0001",
        DISPATCHER_CHANNELS__VOICE__RATE_BURST="1",
    )
    caller = Caller(program, make_key(program))
    await connection.execute(
        """INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template, scheduled_for)
           SELECT 'late-' || n, 'voice', '+4917012345', '{"body": "x"}', now() - interval '1 hour'
             FROM generate_series(1, 50) n"""
    )

    def refused() -> bool:
        return caller.post("/deliveries", delivery("v", channel="voice")).status == 503

    await program.until(refused, "more is refused")
    answer = caller.post("/deliveries", delivery("w", channel="voice"))
    _is_problem(answer, 503, "overloaded")
    assert int(answer.headers["retry-after"]) >= 1
    many = {"deliveries": [delivery("s-1"), delivery("w", channel="voice")]}
    _is_problem(caller.post("/deliveries/batch", many), 503, "overloaded")
    lines = {"lines": [json.dumps(one) for one in many["deliveries"]]}
    _is_problem(caller.post("/deliveries/lines", lines), 503, "overloaded")
    # Who goes by another channel is not kept waiting, and nobody who only looks.
    assert caller.post("/deliveries", delivery("s")).status == 201
    assert caller.get("/deliveries").status == 200
    _is_problem(caller.post("/workflows/welcome/triggers", {}), 503, "overloaded")
    assert program.run("pause", "channel", "voice", "--reason", "x", "--actor", "y").returncode == 0

    def taken() -> bool:
        return caller.post("/deliveries", delivery("x", channel="voice")).status in (200, 201)

    await program.until(taken, "what is paused does not count")


async def test_a_key_whose_requests_wait_for_a_lock_keeps_no_other_one_waiting(
    program: Program, connection: Connection
) -> None:
    await program.start(DISPATCHER_API__CONNECTIONS="4")
    crowd, other = (Caller(program, make_key(program)) for _ in range(2))
    async with connection.transaction():
        await connection.execute(
            "SELECT dispatcher.enqueue_delivery('sms', '+4917012345', 'locked', '{\"body\": \"x\"}')"
        )
        asked = (asyncio.to_thread(crowd.post, "/deliveries", delivery("locked")) for _ in range(4))
        waiting = [asyncio.create_task(one) for one in asked]
        await until_blocked(connection)
        answers = [await asyncio.to_thread(other.get, "/runs") for _ in range(3)]
        assert [one.status for one in answers] == [200] * 3
        assert not any(one.done() for one in waiting)
    assert [one.json["duplicate"] for one in await asyncio.gather(*waiting)] == [True] * 4
