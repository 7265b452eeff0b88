"""Properties of the functions channel: what a function is sent, and a verdict for everything that it can answer."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import json as msgspec_json
from msgspec import structs

from channels.contract import Accepted, Envelope, Refused, RetryAfter, Unknown, Verdict
from channels.functions.answers import judged
from channels.functions.channel import REQUEST_BYTES_MAX, Functions, seconds_of
from channels.functions.data import DEPTH_MAX
from channels.shared.web.client import Answer, delivery_key
from dispatcher.config.settings import Function
from tests.channels.shared.web.fake_server import (
    LOOPBACK,
    METADATA,
    Behaviour,
    Endless,
    FakeResolver,
    FakeServer,
    Silent,
    dropped,
    half,
    says,
)
from tests.channels.smtp.support import envelope
from tests.channels.suite import Verdicts
from tests.support.waits import until

NAME = "create-invoice"
TOKEN = "sesame-4711"
BODY = '{"action": "create", "payload": {"guest": "Ann Secretive", "amount": 1700}}'
TOLD = {"success": True, "data": {"invoice": 17}}


@pytest.fixture
async def fake() -> AsyncIterator[FakeServer]:
    """A function that succeeds."""
    async with FakeServer(says(200, TOLD, X_Request_Id="r-1")) as fake:
        yield fake


def asked(number: int = 1, body: str | None = BODY, to: str = NAME, **more: Any) -> Envelope:
    """A delivery that calls the function."""
    parts = {} if body is None else {"body": body}
    return structs.replace(envelope(number, to, parts=parts, **more), channel="http")


def function(fake: FakeServer, **more: Any) -> Function:
    return Function(url=fake.url, token=TOKEN, allow_addresses=LOOPBACK, **more)


@asynccontextmanager
async def opened(one: Function, **more: Any) -> AsyncIterator[Functions]:
    channel = Functions({NAME: one}, **more)
    try:
        yield channel
    finally:
        await channel.close()


async def verdict(one: Function, delivery: Envelope | None = None, **more: Any) -> Verdict:
    """The verdict about one call."""
    delivery, verdicts = delivery or asked(), Verdicts()
    async with opened(one, **more) as channel:
        await channel.prepare(1)
        await channel.deliver([delivery], verdicts)
    return verdicts.once_each([delivery])[delivery.delivery_id]


def reason(found: Verdict, kind: type[Refused | RetryAfter]) -> str:
    assert isinstance(found, kind), found
    return found.reason


# The request


async def test_a_function_is_sent_the_body_as_it_is_under_its_token_and_the_deliverys_key(fake: FakeServer) -> None:
    delivery = asked(options={"timeout_seconds": 3, "else": "ignored"})
    assert await verdict(function(fake), delivery) == Accepted("r-1", {"invoice": 17})
    (request,) = fake.requests
    assert (request.method, request.path, request.body.decode()) == ("POST", "/call", BODY)
    assert request.headers["authorization"] == f"Bearer {TOKEN}"
    assert request.headers["idempotency-key"] == delivery_key(delivery)
    assert request.headers["content-type"] == "application/json"


async def test_without_a_token_there_is_no_such_header(fake: FakeServer) -> None:
    await verdict(structs.replace(function(fake), token=""))
    assert "authorization" not in fake.requests[0].headers


def test_a_key_is_the_same_on_every_attempt_and_another_one_in_every_tenant() -> None:
    one = asked()
    assert delivery_key(one) == delivery_key(structs.replace(one, attempt=2))
    others = [structs.replace(one, **{field: "x"}) for field in ("tenant_id", "workspace_id", "idempotency_key")]
    assert len({delivery_key(each) for each in (one, *others)}) == 4
    # Whatever stands in ours, it is a header that is one line.
    assert delivery_key(structs.replace(one, idempotency_key="a\r\nX: y\udfff")).isalnum() is False
    assert "\n" not in delivery_key(structs.replace(one, idempotency_key="a\r\nX: y"))


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (None, "body: is missing"),
        (" ", "body: is missing"),
        ("hello", "body: is not a JSON object"),
        ("[1]", "body: is not a JSON object"),
        ('"a"', "body: is not a JSON object"),
        ("null", "body: is not a JSON object"),
        ('{"a": 1} x', "body: is not a JSON object"),
        ('{"a": Ann}', "body: is not a JSON object"),
        ('{"a": "\udfff"}', "body: has half a character"),
        ('{"a": "' + "x" * REQUEST_BYTES_MAX + '"}', "body: is too large"),
    ],
    ids=str,
)
async def test_an_input_other_than_an_object_is_refused_before_the_call(
    fake: FakeServer, body: str | None, field: str
) -> None:
    assert reason(await verdict(function(fake), asked(body=body)), Refused).startswith(field)
    assert fake.requests == []


async def test_a_deep_body_is_sent_or_refused_and_no_crash(fake: FakeServer) -> None:
    for depth in (100, 900, 1_000, 100_000):
        body = '{"a": ' + "[" * depth + "]" * depth + "}"
        fake.next.append(says(400, {"success": False, "error": "deep"}))
        assert reason(await verdict(function(fake), asked(body=body)), Refused)
        fake.next.clear()


async def test_an_unknown_function_is_refused_by_its_field(fake: FakeServer) -> None:
    found = reason(await verdict(function(fake), asked(to="nobody")), Refused)
    assert found.startswith("recipient: ")
    assert "nobody" not in found


@pytest.mark.parametrize("seconds", [0, -1, "5", True, None, [], float("nan")])
async def test_an_invalid_timeout_is_refused_with_its_field(fake: FakeServer, seconds: object) -> None:
    found = await verdict(function(fake), asked(options={"timeout_seconds": seconds}))
    assert reason(found, Refused).startswith("options.timeout_seconds: ")
    assert fake.requests == []


# What it brings back


@pytest.mark.parametrize(
    ("said", "data"),
    [
        ({"success": True, "data": {"a": 1}}, {"a": 1}),
        ({"data": {"a": 1}, "more": 2}, {"a": 1}),
        ({"success": True, "data": [1, 2]}, {"value": [1, 2]}),
        ({"success": True, "data": 0}, {"value": 0}),
        ({"success": True, "data": {}}, {}),
        ({"success": True, "data": None}, None),
        ({"success": True}, None),
        ({"invoice": 17}, {"invoice": 17}),
        ({}, {}),
        ({"success": True, "data": {"a\0b": "c\0d"}}, {"a\ufffdb": "c\ufffdd"}),
        ({"success": True, "data": {"n": 10**30}}, {"n": 1e30}),
        ({"success": True, "data": {"n": None, "t": True, "f": 1.5}}, {"n": None, "t": True, "f": 1.5}),
    ],
    ids=str,
)
async def test_data_comes_back_in_a_form_that_can_be_kept(fake: FakeServer, said: object, data: object) -> None:
    fake.next.append(says(200, said))
    assert await verdict(function(fake)) == Accepted("", data)  # type: ignore[arg-type]  # an object or None


async def test_data_may_be_deep_but_not_bottomless(fake: FakeServer) -> None:
    def nested(depth: int) -> Behaviour:
        return says(200, {"success": True, "data": json.loads('{"a": ' * depth + "1" + "}" * depth)})

    fake.next.append(nested(DEPTH_MAX))
    assert isinstance(await verdict(function(fake)), Accepted)
    fake.next.append(nested(DEPTH_MAX + 1))
    assert "nested" in reason(await verdict(function(fake)), Refused)


@pytest.mark.parametrize("depth", [900, 5_000, 30_000])
async def test_a_bottomless_answer_is_a_failure_and_no_crash(fake: FakeServer, depth: int) -> None:
    fake.next.append(says(200, raw=b'{"data":' + b"[" * depth + b"]" * depth + b"}"))
    assert reason(await verdict(function(fake)), Refused).startswith("answered with ")


async def test_how_the_function_calls_the_call_is_kept(fake: FakeServer) -> None:
    fake.next.append(says(200, {"success": True, "request_id": "own"}, X_Request_Id="header"))
    assert await verdict(function(fake)) == Accepted("own")
    fake.next.append(says(200, {"success": True, "request_id": 7}, X_Request_Id="h" * 300))
    assert await verdict(function(fake)) == Accepted("h" * 255)
    fake.next.append(says(200, {"success": True, "request_id": "a\nb"}))
    assert await verdict(function(fake)) == Accepted("")


# Failures


FAILED = {"success": False, "error": "room 12 is taken"}


@pytest.mark.parametrize(
    ("behaviour", "kind", "words"),
    [
        (says(200, FAILED), Refused, "answered that it has failed: room 12 is taken"),
        (says(200, FAILED | {"retryable": True}), RetryAfter, "room 12 is taken"),
        (says(200, {"success": "yes"}), Refused, "answered that it has failed"),
        (says(200, {"success": None}), Refused, "answered that it has failed"),
        (says(200, raw=b"<html>hello</html>"), Refused, "200 and no JSON object"),
        (says(200, raw=b""), Refused, "200 and no JSON object"),
        (says(200, [1]), Refused, "200 and no JSON object"),
        (says(200, raw=b'{"a": "\0"}'), Refused, "200 and no JSON object"),
        (says(200, raw=b'{"a": "\xff"}'), Refused, "200 and no JSON object"),
        (says(400, FAILED), Refused, "answered with 400: room 12 is taken"),
        (says(401, raw=b"no"), Refused, "answered with 401"),
        (says(404, raw=b"<html>"), Refused, "answered with 404"),
        (says(408, {}), RetryAfter, "answered with 408"),
        (says(422, FAILED | {"retryable": True}), RetryAfter, "answered with 422"),
        (says(425, {}), RetryAfter, "answered with 425"),
        (says(429, {}), RetryAfter, "answered with 429"),
        (says(500, {}), RetryAfter, "answered with 500"),
        (says(500, FAILED | {"retryable": False}), Refused, "answered with 500"),
        (says(503, raw=b"<html>"), RetryAfter, "answered with 503"),
        (says(502, FAILED), RetryAfter, "answered with 502"),
        (says(302, {}, Location=METADATA), Refused, "302, a redirect, and those are not followed"),
        (says(307, {}, Location="/elsewhere"), Refused, "307, a redirect"),
        (half(500), RetryAfter, "answered with 500"),
        (half(404), Refused, "answered with 404"),
    ],
)
async def test_a_failure_passes_or_does_not(
    fake: FakeServer, behaviour: Behaviour, kind: type[Refused | RetryAfter], words: str
) -> None:
    fake.next.append(behaviour)
    assert words in reason(await verdict(function(fake)), kind)
    assert len(fake.requests) == 1


@pytest.mark.parametrize("behaviour", [says(500, FAILED), says(200, FAILED), says(404, {}), says(200, raw=b"<html>")])
async def test_a_functions_class_of_failures_can_be_told(fake: FakeServer, behaviour: Behaviour) -> None:
    for retry, kind in (("never", Refused), ("always", RetryAfter)):
        fake.next.append(behaviour)
        assert isinstance(await verdict(function(fake, retry=retry)), kind)


async def test_a_wish_for_a_pause_is_heeded(fake: FakeServer) -> None:
    fake.next.append(says(429, {}, Retry_After="17"))
    assert await verdict(function(fake)) == RetryAfter("answered with 429", 17.0)


async def test_too_long_an_answer_is_a_failure_and_is_not_read(fake: FakeServer) -> None:
    endless = Endless()
    fake.next.append(endless)
    found = await verdict(function(fake, answer_bytes_max=512))
    assert reason(found, Refused) == "answered with more than 512 bytes (answer_bytes_max)"
    await asyncio.wait_for(endless.stopped.wait(), 60)


async def test_nothing_of_the_delivery_is_in_a_reason(fake: FakeServer) -> None:
    for error in (
        "no invoice for Ann Secretive",
        {"code": "E17", "message": "Secretive, Ann: 1700 is too much"},
        f"token {TOKEN} is unknown",
    ):
        fake.next.append(says(400, {"success": False, "error": error}))
        found = reason(await verdict(function(fake)), Refused)
        assert not any(word in found for word in ("Ann", "Secretive", "1700", "sesame", "4711", NAME)), found
    # Names of fields are the template's words, and help.
    fake.next.append(says(400, {"success": False, "error": "amount must be positive\nand whole"}))
    assert reason(await verdict(function(fake)), Refused) == "answered with 400: amount must be positive and whole"


# Nobody knows


@pytest.mark.parametrize(
    "behaviour", [dropped, half(200), says(502, raw=b"<html>"), says(504, raw=b""), says(524, raw=b"")]
)
async def test_an_incomplete_answer_is_unknown(fake: FakeServer, behaviour: Behaviour) -> None:
    fake.next.append(behaviour)
    assert isinstance(await verdict(function(fake, retry="never")), Unknown)


async def test_the_functions_that_are_idempotent_know_their_keys(fake: FakeServer) -> None:
    channel = Functions({NAME: function(fake, idempotent=True), "other": function(fake)})
    assert channel.keyed_recipients == {NAME}


@pytest.mark.parametrize("head", [False, True])
async def test_a_time_out_is_unknown_and_a_delivery_can_lower_it(fake: FakeServer, head: bool) -> None:
    for one, options in (({"timeout_seconds": 0.2}, {}), ({}, {"timeout_seconds": 0.2})):
        silent = Silent(head)
        fake.next.append(silent)
        found = await verdict(function(fake, **one), asked(options=options))
        silent.let_go.set()
        assert isinstance(found, Unknown)


def test_a_delivery_can_only_lower_the_time_out() -> None:
    assert seconds_of(asked(), 20.0) == 20.0
    assert seconds_of(asked(options={"timeout_seconds": 3}), 20.0) == 3.0
    assert seconds_of(asked(options={"timeout_seconds": 30.5}), 20.0) == 20.0


async def test_a_function_that_cannot_be_reached_was_not_called(fake: FakeServer) -> None:
    found = await verdict(structs.replace(function(fake), url="http://127.0.0.1:1/"))
    assert reason(found, RetryAfter).startswith("no connection")


@pytest.mark.parametrize("allowed", ["", "127.0.0.2", "10.0.0.0/8"])
async def test_a_function_on_an_address_that_is_not_named_is_refused(fake: FakeServer, allowed: str) -> None:
    found = await verdict(structs.replace(function(fake), allow_addresses=allowed))
    assert reason(found, Refused).startswith("recipient: its URL leads to an address that is not public")
    assert fake.requests == []


async def test_a_name_that_resolves_to_a_private_address_is_refused(fake: FakeServer) -> None:
    one = structs.replace(function(fake), url=f"https://public.example:{fake.port}/", allow_addresses="")
    found = await verdict(one, resolver=lambda: FakeResolver(fake.port, ["127.0.0.1"]))
    assert reason(found, Refused).startswith("recipient: its URL leads to an address that is not public")


async def test_an_invalid_url_is_refused() -> None:
    for url in ("", "https://", "ftp://h/", "https://u:hunter2@h/"):
        found = reason(await verdict(Function(url=url)), Refused)
        assert found.startswith("recipient: ")
        assert "hunter2" not in found


async def test_functions_that_act_for_any_key_are_marked(fake: FakeServer) -> None:
    """An idempotent function's own word does, a proxy's page does not."""
    for behaviour, by_key in ((says(200, FAILED), True), (says(401, raw=b"<html>"), False)):
        fake.next.extend([behaviour, behaviour])
        for idempotent in (False, True):
            found = await verdict(function(fake, idempotent=idempotent))
            assert isinstance(found, Refused)
            assert found.by_key == (idempotent and by_key)


# Beside each other


async def test_one_that_hangs_keeps_no_other_waiting(fake: FakeServer) -> None:
    silent, verdicts = Silent(), Verdicts()
    async with FakeServer(silent) as slow:
        channel = Functions({NAME: function(fake), "slow": function(slow, connections=1)})
        batch = [asked(number, to="slow") for number in range(1, 4)] + [asked(number) for number in range(4, 9)]
        calling = asyncio.create_task(channel.deliver(batch, verdicts))
        await until(lambda: len(verdicts.reported) == 5, "the others have their verdicts")
        assert len(slow.requests) <= 1
        silent.let_go.set()
        await calling
        await channel.close()
    verdicts.once_each(batch)


async def test_a_cancelled_batch_returns_the_phase_of_each_call(fake: FakeServer) -> None:
    silent, verdicts = Silent(), Verdicts()
    fake.always = silent
    batch = [asked(number) for number in (1, 2, 3)]
    async with opened(function(fake, connections=1)) as channel:
        calling = asyncio.create_task(channel.deliver(batch, verdicts))
        await until(silent.begun.is_set, "one has begun")
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
    silent.let_go.set()
    found = verdicts.once_each(batch)
    assert sorted(type(one).__name__ for one in found.values()) == ["NotCalled", "NotCalled", "Unknown"]


async def test_a_licence_that_ends_while_waiting_for_a_turn_is_not_called(fake: FakeServer) -> None:
    silent, verdicts, now = Silent(), Verdicts(), [0.0]
    fake.always = silent
    batch = [asked(number, clock=lambda: now[0]) for number in (1, 2)]
    async with opened(function(fake, connections=1)) as channel:
        calling = asyncio.create_task(channel.deliver(batch, verdicts))
        await until(silent.begun.is_set, "one has begun")
        now[0] = 10.0
        silent.let_go.set()
        await calling
    assert sorted(type(one).__name__ for one in verdicts.once_each(batch).values()) == ["Accepted", "NotCalled"]
    assert len(fake.requests) == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
SAID = st.fixed_dictionaries(
    {}, optional={"success": JSON | st.booleans(), "data": JSON, "error": JSON, "retryable": JSON, "request_id": JSON}
)


@settings(deadline=None)
@given(
    st.integers(200, 599),
    st.binary(max_size=200) | (SAID | JSON).map(lambda said: json.dumps(said).encode()) | st.none(),
    st.sampled_from(["transient", "never", "always"]),
)
def test_whatever_is_answered_there_is_a_verdict_and_its_data_can_be_written(
    status: int, body: bytes | None, retry: Any
) -> None:
    found = judged(asked(), Function(url="https://f.example/", retry=retry), Answer(status, {}, body))
    assert isinstance(found, Accepted | Refused | RetryAfter | Unknown)
    if isinstance(found, Accepted):
        assert "\\u0000" not in msgspec_json.encode(found.data).decode()
        assert "\0" not in found.provider_message_id
