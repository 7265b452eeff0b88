"""Properties of the webhooks channel: what an endpoint is sent, and a verdict for whatever it does with that."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from email.utils import formatdate
from itertools import count
from typing import Any

import pytest
from msgspec import structs

from channels.contract import Accepted, Envelope, Refused, RetryAfter, Throttled, Unknown, Verdict
from channels.webhooks import channel as hooks
from channels.webhooks.channel import Webhooks
from channels.webhooks.options import WebhooksOptions
from tests.channels.shared.web.fake_server import (
    ELSEWHERE,
    LOOPBACK,
    METADATA,
    Behaviour,
    FakeServer,
    Silent,
    dropped,
    half,
    says,
)
from tests.channels.smtp.support import envelope
from tests.channels.suite import SECRET, Verdicts
from tests.features.webhooks.support import signatures, verify

OTHER = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = '{"type":"delivery.sent","timestamp":"2030-01-31T08:00:00Z","data":{"id":17}}'
NOW = 1_900_000_000.0


class Books:
    """What is written about endpoints that are gone; `away` is Postgres then."""

    def __init__(self) -> None:
        self.gone: list[tuple[int, str]] = []
        self.away = False

    def connect(self) -> AbstractAsyncContextManager["Books"]:
        """A connection."""

        @asynccontextmanager
        async def connected() -> AsyncIterator[Books]:
            if self.away:
                raise OSError
            yield self

        return connected()

    async def fetch(self, _statement: str, number: int, url: str) -> Sequence[Sequence[bool]]:
        """What a connection has."""
        self.gone.append((number, url))
        return [[True]]


@pytest.fixture
async def fake() -> AsyncIterator[FakeServer]:
    """An endpoint."""
    async with FakeServer(says(204)) as fake:
        yield fake


def asked(url: str, *secrets: str, number: int = 1, attempt: int = 1, endpoint: int = 7, body: str = BODY) -> Envelope:
    """An event for an endpoint."""
    where = {"id": endpoint, "url": url, "secrets": secrets or (SECRET,)}
    one = envelope(number, "crm", parts={"body": body}, options={"webhook": where})
    return structs.replace(one, channel="webhook", attempt=attempt)


async def verdict(delivery: Envelope, books: Books | None = None, at: float = NOW, **options: Any) -> Verdict:
    """What a channel that has just been opened says to it."""
    options = {"allow_addresses": LOOPBACK} | options
    channel, verdicts = Webhooks(WebhooksOptions(**options), (books or Books()).connect, clock=lambda: at), Verdicts()
    try:
        await channel.prepare(1)
        await channel.deliver([delivery], verdicts)
    finally:
        await channel.close()
    return verdicts.once_each([delivery])[delivery.delivery_id]


async def test_a_message_is_signed_with_the_secret(fake: FakeServer) -> None:
    told = await verdict(asked(fake.url))
    (request,) = fake.requests
    assert verify(request, SECRET, NOW) == {
        "type": "delivery.sent",
        "timestamp": "2030-01-31T08:00:00Z",
        "data": {"id": 17},
    }
    assert (request.method, request.headers["content-type"]) == ("POST", "application/json")
    assert told == Accepted(request.headers["webhook-id"])
    assert "authorization" not in request.headers
    with pytest.raises(AssertionError, match="forged"):
        verify(request, OTHER, NOW)


async def test_while_a_secret_is_rotated_both_sign(fake: FakeServer) -> None:
    await verdict(asked(fake.url, OTHER, SECRET))
    (request,) = fake.requests
    assert len(signatures(request)) == 2
    assert verify(request, SECRET, NOW) == verify(request, OTHER, NOW)


async def test_another_attempt_has_the_same_id_and_bytes_and_a_time_of_its_own(fake: FakeServer) -> None:
    for attempt in (1, 2):
        await verdict(asked(fake.url, attempt=attempt), at=NOW + attempt * 3_600)
    await verdict(asked(fake.url, number=2), at=NOW)
    first, again, other = fake.requests
    assert first.headers["webhook-id"] == again.headers["webhook-id"] != other.headers["webhook-id"]
    assert first.body == again.body
    verify(first, SECRET, NOW + 3_600)
    verify(again, SECRET, NOW + 7_200)
    assert signatures(first) != signatures(again)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
async def test_any_2xx_is_taken(fake: FakeServer, status: int) -> None:
    fake.next.append(says(status, raw=b"whatever"))
    assert isinstance(await verdict(asked(fake.url)), Accepted)


@pytest.mark.parametrize("status", [200, 299])
async def test_a_status_alone_decides_where_the_body_is_lost(fake: FakeServer, status: int) -> None:
    fake.next.append(half(status))
    assert isinstance(await verdict(asked(fake.url)), Accepted)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 422, 429, 500, 503])
async def test_refused_connections_are_retried(fake: FakeServer, status: int) -> None:
    fake.next.append(says(status, {}))
    assert await verdict(asked(fake.url)) == RetryAfter(f"answered with {status}", None)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("asked_for", ["120", "date"])
async def test_a_retry_after_is_respected(fake: FakeServer, status: int, asked_for: str) -> None:
    text = formatdate(time.time() + 119, usegmt=True) if asked_for == "date" else asked_for
    fake.next.append(says(status, {}, Retry_After=text))
    told = await verdict(asked(fake.url))
    assert isinstance(told, RetryAfter)
    assert told.delay_seconds is not None
    assert 60 < told.delay_seconds <= 120


async def test_a_redirect_is_not_followed(fake: FakeServer) -> None:
    fake.next.append(says(302, {}, Location=METADATA))
    told = await verdict(asked(fake.url))
    assert isinstance(told, RetryAfter)
    assert "redirect" in told.reason
    assert len(fake.requests) == 1


UNKNOWN: dict[str, Behaviour] = {"dropped": dropped, "502": says(502, raw=b""), "504": says(504, raw=b"")}


@pytest.mark.parametrize("what", UNKNOWN)
async def test_a_lost_answer_is_unknown_and_repeatable_under_its_id(fake: FakeServer, what: str) -> None:
    fake.next.append(UNKNOWN[what])
    assert isinstance(await verdict(asked(fake.url)), Unknown)
    assert Webhooks(WebhooksOptions(), Books().connect).idempotency_key_seconds == float("inf")


async def test_a_silent_server_times_out(fake: FakeServer) -> None:
    silent = Silent()
    fake.next.append(silent)
    told = await verdict(asked(fake.url), timeout_seconds=0.2)
    silent.let_go.set()
    assert isinstance(told, Unknown)


async def test_an_unreachable_server_is_retried(fake: FakeServer) -> None:
    told = await verdict(asked("http://127.0.0.1:1/hooks"))
    assert isinstance(told, RetryAfter)
    assert "no connection" in told.reason


async def test_an_endpoint_that_is_gone_is_disabled(fake: FakeServer) -> None:
    books = Books()
    fake.next.append(says(410))
    assert isinstance(await verdict(asked(fake.url), books), Refused)
    assert books.gone == [(7, fake.url)]


async def test_a_gone_recipient_proves_nothing_about_an_earlier_attempt(fake: FakeServer) -> None:
    fake.next.append(says(410))
    assert isinstance(await verdict(asked(fake.url, attempt=2)), RetryAfter)


async def test_a_disabled_endpoint_has_its_verdict_although_it_cannot_be_written(fake: FakeServer) -> None:
    books = Books()
    books.away = True
    fake.next.append(says(410))
    assert isinstance(await verdict(asked(fake.url), books), Refused)
    assert books.gone == []


@pytest.mark.parametrize("url", [METADATA, "http://127.0.0.1:{port}/", "http://[::1]:{port}/"])
async def test_nothing_leaves_for_an_address_that_is_not_public(fake: FakeServer, url: str) -> None:
    told = await verdict(asked(url.format(port=fake.port)), allow_addresses=f"{ELSEWHERE}/32")
    assert isinstance(told, Refused)
    assert "not public" in told.reason
    assert fake.requests == []


async def test_a_delivery_without_a_recipient_is_refused() -> None:
    bare = envelope(1, "crm", parts={"body": BODY})
    for options in ({}, {"webhook": 7}):
        told = await verdict(structs.replace(bare, options=options))
        assert isinstance(told, Refused)
        assert "names no endpoint" in told.reason


async def test_a_message_without_words_is_refused(fake: FakeServer) -> None:
    assert await verdict(asked(fake.url, body=" ")) == Refused("body: is missing or empty")


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """Connections are kept to this many endpoints."""
    monkeypatch.setattr(hooks, "CLIENTS_MAX", 3)
    return 3


async def test_connections_are_kept_to_so_many_endpoints_only(fake: FakeServer, few: int) -> None:
    channel, numbers = Webhooks(WebhooksOptions(allow_addresses=LOOPBACK), Books().connect), count(1)
    for endpoint in range(10):
        verdicts = Verdicts()
        one = asked(fake.url, number=next(numbers), endpoint=endpoint)
        await channel.deliver([one], verdicts)
        assert isinstance(verdicts.once_each([one])[one.delivery_id], Accepted)
    assert len(channel._recent) == few
    await channel.close()


async def test_one_that_hangs_keeps_no_other_waiting(fake: FakeServer) -> None:
    silent, channel, verdicts = (
        Silent(),
        Webhooks(WebhooksOptions(allow_addresses=LOOPBACK), Books().connect),
        Verdicts(),
    )
    async with FakeServer(silent) as hanging:
        slow = [asked(hanging.url, number=n, endpoint=1) for n in range(1, 101)]
        quick = [asked(fake.url, number=n, endpoint=2) for n in range(101, 106)]

        put_off = len(slow) - hooks.WAITING_MAX

        def report(one: Envelope, told: Verdict) -> None:
            verdicts(one, told)
            if len(verdicts.reported) == put_off + len(quick):
                silent.let_go.set()

        await channel.deliver([*slow, *quick], report)
        await channel.close()
    first = dict(verdicts.reported[: put_off + len(quick)])
    assert {number for number, told in first.items() if isinstance(told, Accepted)} == {
        one.delivery_id for one in quick
    }
    assert sum(isinstance(told, Throttled) for told in first.values()) == put_off
    assert sum(isinstance(told, Accepted) for _, told in verdicts.reported) == hooks.WAITING_MAX + len(quick)
