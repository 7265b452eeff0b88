"""Properties of the Slack channel: what a webhook is sent, and a verdict for each of its documented answers."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from msgspec import structs

from channels.contract import Accepted, Envelope, Refused, RetryAfter, Throttled, Unknown, Verdict
from channels.slack.channel import Slack
from channels.slack.options import SlackOptions
from dispatcher.config.settings import Webhook
from tests.channels.shared.web.fake_server import (
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
from tests.channels.suite import Verdicts

NAME = "acquisition"
BLOCKS = '[{"type": "section", "text": {"type": "mrkdwn", "text": "*Ann* asks"}}]'


async def ok(_http: web.Request) -> web.StreamResponse:
    """Slack."""
    return web.Response(text="ok", headers={"x-slack-req-id": "s-1"})


@pytest.fixture
async def fake() -> AsyncIterator[FakeServer]:
    """A webhook."""
    async with FakeServer(ok) as fake:
        yield fake


def asked(to: str = NAME, **parts: str) -> Envelope:
    return structs.replace(envelope(1, to, parts=parts or {"body": "Ann asks"}), channel="chat")


async def verdict(
    fake: FakeServer, delivery: Envelope | None = None, allowed: str = LOOPBACK, **options: Any
) -> Verdict:
    delivery, verdicts = delivery or asked(), Verdicts()
    channel = Slack(SlackOptions(**options), {NAME: Webhook(url=fake.url, allow_addresses=allowed)})
    try:
        await channel.prepare(1)
        await channel.deliver([delivery], verdicts)
    finally:
        await channel.close()
    return verdicts.once_each([delivery])[1]


@pytest.mark.parametrize(
    ("parts", "sent"),
    [
        ({"body": "Ann asks"}, {"text": "Ann asks"}),
        ({"text": "Ann asks"}, {"text": "Ann asks"}),
        ({"body": "Ann", "blocks": BLOCKS}, {"text": "Ann", "blocks": json.loads(BLOCKS)}),
        ({"body": " ", "blocks": BLOCKS}, {"blocks": json.loads(BLOCKS)}),
        ({"body": 'He said "<hi> & \u2603"'}, {"text": 'He said "<hi> & \u2603"'}),
    ],
    ids=str,
)
async def test_a_webhook_is_sent_text_and_blocks(fake: FakeServer, parts: dict[str, str], sent: object) -> None:
    assert await verdict(fake, asked(**parts)) == Accepted("s-1")
    (request,) = fake.requests
    assert json_of(request) == sent
    assert "authorization" not in request.headers


@pytest.mark.parametrize(
    ("parts", "field"),
    [
        ({"body": ""}, "body: is missing"),
        ({"title": "x"}, "body: is missing"),
        ({"body": "x" * 40_001}, "body: is too long"),
        ({"body": "\udfff"}, "body: has half a character"),
        ({"body": "x", "blocks": "{}"}, "blocks: are not a JSON list"),
        ({"body": "x", "blocks": "[1]"}, "blocks: are not a JSON list"),
        ({"body": "x", "blocks": "[" * 100_000}, "blocks: are not a JSON list"),
        ({"body": "x", "blocks": "nothing"}, "blocks: are not a JSON list"),
        ({"body": "x", "blocks": "[" + ",".join(["{}"] * 51) + "]"}, "blocks: are too many"),
        ({"body": "x", "blocks": '[{"a": "' + "x" * 300_000 + '"}]'}, "blocks: are too large"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_invalid_messages_are_refused_with_their_field(
    fake: FakeServer, parts: dict[str, str], field: str
) -> None:
    found = await verdict(fake, asked(**parts))
    assert isinstance(found, Refused)
    assert found.reason.startswith(field)
    assert fake.requests == []


async def test_an_unknown_webhook_is_refused_by_its_field(fake: FakeServer) -> None:
    found = await verdict(fake, asked(to="nowhere"))
    assert isinstance(found, Refused)
    assert found.reason.startswith("recipient: ")
    assert "nowhere" not in found.reason


def word(status: int, text: str, **headers: str) -> Behaviour:
    return says(status, raw=text.encode(), **headers)


@pytest.mark.parametrize(
    ("behaviour", "expected"),
    [
        (word(400, "invalid_payload"), Refused("slack says 400 invalid_payload")),
        (word(403, "action_prohibited"), Refused("slack says 403 action_prohibited")),
        (word(404, "channel_not_found"), Refused("slack says 404 channel_not_found")),
        (word(404, "no_service"), Refused("slack says 404 no_service")),
        (word(410, "channel_is_archived"), Refused("slack says 410 channel_is_archived")),
        (word(404, "<html>Ann asks</html>"), Refused("slack says 404")),
        (word(429, "", Retry_After="30"), Throttled(30.0)),
        (word(429, "rate_limited"), Throttled(1.0)),
        (word(429, "", Retry_After="soon"), Throttled(1.0)),
        (word(500, "rollup_error"), RetryAfter("slack says 500 rollup_error")),
        (word(503, "<html>", Retry_After="7"), RetryAfter("slack says 503", 7.0)),
        (word(408, ""), RetryAfter("slack says 408")),
        (word(502, "<html>"), Unknown("answered with 502 by a gateway")),
        (word(504, ""), Unknown("answered with 504 by a gateway")),
        (word(200, "<html>log in here</html>"), Unknown("answered with 200 and not with ok")),
        (word(200, ""), Unknown("answered with 200 and not with ok")),
        (word(200, "ok\n"), Accepted("")),
        (half(200), Unknown("answered with 200 and not with ok")),
        (says(302, {}, Location=METADATA), Refused("slack says 302, a redirect, and those are not followed")),
    ],
)
async def test_each_answer_has_its_verdict(fake: FakeServer, behaviour: Behaviour, expected: Verdict) -> None:
    fake.next.append(behaviour)
    assert await verdict(fake) == expected
    assert len(fake.requests) == 1


async def test_a_lost_answer_is_unknown_and_not_sent_again(fake: FakeServer) -> None:
    fake.next.append(dropped)
    assert isinstance(await verdict(fake), Unknown)
    silent = Silent()
    fake.next.append(silent)
    found = await verdict(fake, timeout_seconds=0.2)
    silent.let_go.set()
    assert isinstance(found, Unknown)
    assert len(fake.requests) == 2


async def test_a_webhook_on_an_address_that_is_not_named_is_refused(fake: FakeServer) -> None:
    found = await verdict(fake, allowed="")
    assert isinstance(found, Refused)
    assert fake.requests == []


async def test_the_url_is_in_no_verdict(fake: FakeServer) -> None:
    for behaviour in (dropped, word(404, fake.url), word(500, fake.url), says(302, {}, Location=fake.url)):
        fake.next.append(behaviour)
        assert str(fake.port) not in repr(await verdict(fake))
