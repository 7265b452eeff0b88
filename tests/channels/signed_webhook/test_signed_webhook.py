"""Properties of the signed webhook: what a receiver is sent, and a verdict for whatever it answers."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from msgspec import structs

from channels.contract import Accepted, Envelope, NotCalled, Refused, RetryAfter, Throttled, Unknown, Unready, Verdict
from channels.shared.web.client import delivery_key
from channels.signed_webhook.channel import SignedWebhook
from channels.signed_webhook.options import SignedWebhookOptions
from tests.channels.shared.web.fake_server import (
    ELSEWHERE,
    LOOPBACK,
    METADATA,
    Behaviour,
    FakeServer,
    Silent,
    dropped,
    half,
    json_of,
    says,
)
from tests.channels.smtp.support import envelope
from tests.channels.suite import SECRET, Verdicts
from tests.features.webhooks.support import require_signed

OTHER = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NOW = 1_900_000_000.0
BASIC = {"url": "https://sms.example.org/send", "secrets": SECRET}


@pytest.fixture
async def fake() -> AsyncIterator[FakeServer]:
    """A receiver."""
    async with FakeServer(says(202)) as fake:
        yield fake


def options_of(**given: Any) -> SignedWebhookOptions:
    return msgspec.convert(BASIC | given, SignedWebhookOptions)


@asynccontextmanager
async def opened(fake: FakeServer, **options: Any) -> AsyncIterator[SignedWebhook]:
    given = {"url": fake.url, "allow_addresses": LOOPBACK} | options
    channel = SignedWebhook(options_of(**given), clock=lambda: NOW)
    try:
        yield channel
    finally:
        await channel.close()


def asked(attempt: int = 1, options: dict[str, Any] | None = None, **parts: str) -> Envelope:
    one = envelope(17, "+4915112345", parts=parts or {"body": "Ann asks"}, options=options or {})
    return structs.replace(one, channel="sms", attempt=attempt)


async def verdict(fake: FakeServer, delivery: Envelope | None = None, **options: Any) -> Verdict:
    async with opened(fake, **options) as channel:
        await channel.prepare(1)
        return await sent(channel, delivery or asked())


async def sent(channel: SignedWebhook, delivery: Envelope) -> Verdict:
    verdicts = Verdicts()
    await channel.deliver([delivery], verdicts)
    return verdicts.once_each([delivery])[delivery.delivery_id]


# What is sent


async def test_a_message_is_signed_as_standard_webhooks_ask_by_every_secret(fake: FakeServer) -> None:
    delivery = asked()
    assert await verdict(fake, delivery, secrets=f"{SECRET}\n{OTHER}") == Accepted(delivery_key(delivery))
    (request,) = fake.requests
    assert json_of(request) == {
        "id": delivery_key(delivery),
        "channel": "sms",
        "recipient": "+4915112345",
        "parts": {"body": "Ann asks"},
    }
    assert request.headers["webhook-id"] == delivery_key(delivery)
    assert request.headers["webhook-timestamp"] == str(int(NOW))
    for secret in (SECRET, OTHER):
        require_signed(request, secret, NOW)
    assert "authorization" not in request.headers


async def test_a_body_has_the_form_that_the_options_give_it(fake: FakeServer) -> None:
    form = {
        "messages": [{"to": "tel:{recipient}", "text": "{parts.body}", "n": 1}],
        "meta": {"ref": "{key}/{delivery_id}", "who": "{tenant_id}.{workspace_id}", "{x}": "{{not}}"},
        "tags": "{options.tags}",
        "urgent": "{options.urgent}",
        "note": "urgent: {options.urgent}, {options.n}",
    }
    delivery = asked(options={"tags": ["a", {"b": None}], "urgent": True, "n": 2.5})
    await verdict(fake, delivery, body=json.dumps(form), authorization="Bearer x y")
    (request,) = fake.requests
    assert json_of(request) == {
        "messages": [{"to": "tel:+4915112345", "text": "Ann asks", "n": 1}],
        "meta": {"ref": "key-17/17", "who": "default.default", "{x}": "{not}"},
        "tags": ["a", {"b": None}],
        "urgent": True,
        "note": "urgent: true, 2.5",
    }
    assert request.headers["authorization"] == "Bearer x y"


@pytest.mark.parametrize("text", ['", "admin": true, "x": "', "{recipient}", "\\", "\u2028</script>\n", "{{", "\0"])
async def test_nothing_in_a_message_changes_the_form_of_its_body(fake: FakeServer, text: str) -> None:
    await verdict(fake, asked(body=text), body='{"a": "{parts.body}", "b": "x{parts.body}y"}')
    assert json_of(fake.requests[0]) == {"a": text, "b": f"x{text}y"}


@pytest.mark.parametrize(
    ("delivery", "form", "reason"),
    [
        (asked(body="x"), '{"a": "{parts.title}"}', "parts.title: is missing, and the channel's body names it"),
        (asked(), '{"a": "{options.tag}"}', "options.tag: is missing"),
        (asked(options={"tag": [1]}), '{"a": "x{options.tag}"}', "options.tag: is neither a text nor a number"),
        (asked(), '{"a": "x{parts}"}', "parts: is neither a text nor a number"),
        (asked(body="\udfff"), '{"a": "{parts.body}"}', "body: has half a character"),
        (asked(body="x" * 9_000_000), '{"a": "{parts.body}"}', "body: is too large"),
    ],
    ids=lambda value: str(value)[:30] if isinstance(value, str) else "",
)
async def test_a_message_that_does_not_fill_the_form_is_refused(
    fake: FakeServer, delivery: Envelope, form: str, reason: str
) -> None:
    found = await verdict(fake, delivery, body=form)
    assert isinstance(found, Refused)
    assert found.reason.startswith(reason)
    assert fake.requests == []


# What is answered


@pytest.mark.parametrize(
    ("behaviour", "expected"),
    [
        (says(200, raw=b"<html>"), Accepted(delivery_key(asked()))),
        (half(200), Accepted(delivery_key(asked()))),
        (says(400, {"error": "Ann asks"}), Refused("answered with 400")),
        (says(403), Refused("answered with 403")),
        (says(404), Refused("answered with 404")),
        (says(429), Throttled(1.0)),
        (says(429, Retry_After="30"), Throttled(30.0)),
        (says(500), RetryAfter("answered with 500")),
        (says(503, Retry_After="7"), RetryAfter("answered with 503", 7.0)),
        (says(408), RetryAfter("answered with 408")),
        (says(502, raw=b"<html>"), Unknown("answered with 502 by a gateway")),
        (says(504), Unknown("answered with 504 by a gateway")),
    ],
)
async def test_each_status_has_its_verdict(fake: FakeServer, behaviour: Behaviour, expected: Verdict) -> None:
    fake.next.append(behaviour)
    assert await verdict(fake) == expected
    assert len(fake.requests) == 1


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"result": [{"status": "queued", "id": "m-1"}]}, Accepted("m-1")),
        ({"result": [{"status": "sent", "id": 17}]}, Accepted("17")),
        ({"result": [{"status": "sent"}]}, Accepted(delivery_key(asked()))),
        ({"result": [{"status": "sent", "id": "a\nb"}]}, Accepted(delivery_key(asked()))),
        (
            {"result": [{"status": "failed for Ann"}]},
            Refused("answered with 200, and /result/0/status says: failed for …"),
        ),
        ({"result": [{"status": None}]}, Refused("answered with 200, and /result/0/status says: null")),
        ({"error": "limit"}, Unknown("answered with 200 and without /result/0/status")),
        ({"result": []}, Unknown("answered with 200 and without /result/0/status")),
        ([], Unknown("answered with 200 and without /result/0/status")),
    ],
    ids=str,
)
async def test_a_pointer_says_whether_a_2xx_is_a_success(fake: FakeServer, answer: object, expected: Verdict) -> None:
    fake.next.append(says(200, answer))
    found = await verdict(
        fake, success_pointer="/result/0/status", success_values="queued sent", id_pointer="/result/0/id"
    )
    assert found == expected


@pytest.mark.parametrize(
    ("answer", "pointer", "ok"),
    [
        ({"ok": True}, "/ok", True),
        ({"ok": False}, "/ok", False),
        ({"a/b": {"m~n": True}}, "/a~1b/m~0n", True),
        ({"": True}, "/", True),
    ],
)
async def test_a_pointer_is_read_by_its_standard(fake: FakeServer, answer: object, pointer: str, ok: bool) -> None:
    fake.next.append(says(200, answer))
    assert isinstance(await verdict(fake, success_pointer=pointer), Accepted if ok else Refused)


@pytest.mark.parametrize("behaviour", [half(200), says(200, raw=b"{" * 100_000), says(204)])
async def test_a_success_that_cannot_be_read_is_unknown(fake: FakeServer, behaviour: Behaviour) -> None:
    fake.next.append(behaviour)
    assert isinstance(await verdict(fake, success_pointer="/ok"), Unknown)


async def test_the_receivers_id_may_be_in_a_header(fake: FakeServer) -> None:
    fake.next.append(says(200, {"id": "body"}, X_Message="m-" + "1" * 300))
    assert await verdict(fake, id_header="X-Message", id_pointer="/id") == Accepted("m-" + "1" * 253)


async def test_a_lost_answer_is_unknown(fake: FakeServer) -> None:
    fake.next.append(dropped)
    assert isinstance(await verdict(fake), Unknown)
    silent = Silent()
    fake.next.append(silent)
    assert isinstance(await verdict(fake, timeout_seconds=0.2), Unknown)
    silent.let_go.set()


async def test_a_receiver_that_knows_keys_is_asked_again_and_its_later_refusal_says_nothing(fake: FakeServer) -> None:
    async with opened(fake, key_seconds=3_600) as channel:
        assert channel.idempotency_key_seconds == 3_600
        fake.next += [dropped, says(400), says(200, {"ok": False})]
        assert isinstance(await sent(channel, asked()), Unknown)
        assert isinstance(await sent(channel, asked(attempt=2)), RetryAfter)
    async with opened(fake, key_seconds=3_600, success_pointer="/ok") as channel:
        assert isinstance(await sent(channel, asked(attempt=3)), RetryAfter)


# The settings


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        (says(401), "options.authorization, options.secrets: answered with 401"),
        (says(307, {}, Location=METADATA), "options.url: answered with 307, a redirect"),
    ],
)
async def test_a_receiver_that_refuses_the_settings_stops_the_channel(
    fake: FakeServer, behaviour: Behaviour, words: str
) -> None:
    fake.next.append(behaviour)
    async with opened(fake) as channel:
        await channel.prepare(1)
        found = await sent(channel, asked())
        assert isinstance(found, RetryAfter)
        assert found.reason.startswith(words)
        with pytest.raises(Unready) as caught:
            await channel.prepare(1)
        assert str(caught.value) == found.reason
    assert len(fake.requests) == 1


async def test_messages_behind_a_refusal_of_the_settings_use_no_attempt(fake: FakeServer) -> None:
    fake.always = says(401)
    batch, verdicts = [structs.replace(asked(), delivery_id=number) for number in range(20)], Verdicts()
    async with opened(fake, connections=2) as channel:
        await channel.deliver(batch, verdicts)
    found = list(verdicts.once_each(batch).values())
    called = [one for one in found if isinstance(one, RetryAfter)]
    assert len(called) == len(fake.requests) <= 2
    assert sum(isinstance(one, NotCalled) for one in found) == 20 - len(called)


async def test_an_address_that_is_not_named_is_not_called(fake: FakeServer) -> None:
    async with opened(fake, allow_addresses=ELSEWHERE) as channel:
        assert isinstance(await sent(channel, asked()), RetryAfter)
        with pytest.raises(Unready, match=r"options.url: leads to an address that is not public"):
            await channel.prepare(1)
    assert fake.requests == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"body": "[]"}, "body is not a JSON object"),
        ({"body": '{"a": }'}, "body is not a JSON object"),
        ({"body": '{"a": "{nothing}"}'}, "body has a placeholder that does not exist; there are id, "),
        ({"body": '{"a": "{parts.}"}'}, "body has a placeholder that does not exist"),
        ({"body": '{"a": "{envelope.licence}"}'}, "body has a placeholder that does not exist"),
        ({"body": '{"a": ["}"]}'}, "body has a single brace"),
        ({"body": '{"a":' + "[" * 40 + "]" * 40 + "}"}, "body is nested more than 32 deep"),
        ({"url": "http://plain.example.org"}, "url begins with http://"),
        ({"url": "https://plain.example.org:0/x"}, "url has a host or a port"),
        ({"url": "https://user:password@plain.example.org/x"}, r"\$.url"),
        ({"secrets": "whsec_short"}, r"\$.secrets"),
        ({"success_pointer": "ok"}, r"\$.success_pointer"),
        ({"authorization": "a\nb"}, r"\$.authorization"),
        ({"allow_addresses": "1.2.3"}, "allow_addresses has something"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_faulty_options_are_faults_of_the_configuration(given: dict[str, Any], words: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=words):
        options_of(**given)


async def test_a_large_body_arrives_whole(fake: FakeServer) -> None:
    text = "x" * 3_000_000
    assert isinstance(await verdict(fake, asked(body=text), body='{"a": "{parts.body}"}'), Accepted)
    (request,) = fake.requests
    assert json_of(request) == {"a": text}
    assert request.headers["content-type"] == "application/json"
    require_signed(request, SECRET, NOW)
