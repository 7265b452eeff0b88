"""The page that receipts come in by, where its body or its database fails it."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from itertools import chain, repeat
from typing import Any

import pytest
from litestar import Litestar
from structlog.testing import capture_logs

from dispatcher.base.errors import DatabaseUnavailable
from dispatcher.base.metrics import Metrics
from dispatcher.features.receipts import endpoints as receipts
from dispatcher.features.receipts.providers.request import Accepted, Answer, Forged, Provider, Request
from dispatcher.http.server import public_bodies

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]


class Away:
    """A database that cannot be reached."""

    def transaction(self) -> object:
        """Nobody gets one."""
        raise DatabaseUnavailable("away")


def _heard(_request: Request) -> Answer:
    return Accepted("event")


def _forged(_request: Request) -> Answer:
    return Forged("no signature fits")


def _application(provider: Provider = _heard, now: Callable[[], float] = time.time) -> Litestar:
    context = receipts.ReceiptContext(
        lambda: {"resend": provider},
        Away,  # type: ignore[arg-type]  # all of a database that is asked for here
        lambda one: str(one.id),
        Metrics(),
        now,
    )
    return Litestar(receipts.receipt_handlers(context), openapi_config=None, logging_config=None)


async def _answer(receive: Receive, application: Litestar | None = None) -> tuple[int, Message, dict[str, str]]:
    """The application's answer to a POST with this body."""
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/receipts/resend",
        "raw_path": b"/receipts/resend",
        "query_string": b"",
        "root_path": "",
        "headers": [],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
        "state": {},
    }
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await (application or _application())(scope, receive, send)  # type: ignore[arg-type]  # plain dictionaries, as a server sends them
    headers = {name.decode(): text.decode() for name, text in sent[0]["headers"]}
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], json.loads(body), headers


async def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(public_bodies, "BODY_SECONDS_MAX", 0.01)

    async def never() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    status, said, _ = await _answer(never)
    assert (status, said["status"]) == (408, 408)


async def test_a_request_that_is_cut_off_is_answered_400() -> None:
    begun: Message = {"type": "http.request", "body": b"{", "more_body": True}
    came = chain([begun], repeat({"type": "http.disconnect"}))

    async def half() -> Message:
        return next(came)

    assert (await _answer(half))[0] == 400


async def _whole() -> Message:
    return {"type": "http.request", "body": b"{}", "more_body": False}


async def test_unsigned_requests_do_not_fill_the_log() -> None:
    times = [100.0]
    application = _application(_forged, lambda: times[-1])
    with capture_logs() as lines:
        for second in range(25):
            times.append(100.0 + second)
            assert (await _answer(_whole, application))[0] == 401
    assert [line["why"] for line in lines] == ["no signature fits"] * 3


async def test_while_the_database_is_away_its_provider_is_to_come_back() -> None:
    status, said, headers = await _answer(_whole)
    assert (status, said["status"], headers["retry-after"]) == (503, 503, "30")
    assert headers["content-type"] == "application/problem+json"
