"""Sentry alerts: each kind of error is an event, at most once a period, and no content is in it."""

import gzip
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dispatcher.alerts import SentryAlerts
from dispatcher.alerts.collected import KINDS_MAX, Kind
from dispatcher.base.clock import Clock
from dispatcher.base.metrics import Metrics
from dispatcher.config.settings import Alerts
from tests.channels.shared.web.fake_server import FakeServer, says
from tests.conformance.outbox import Outbox
from tests.support.metering import sample_value
from tests.support.program import Program
from tests.support.scene import Connection

CRASH = Kind("part.crashed", "pipeline", "Fenced", "dispatcher/pipeline.py:1")


def events(fake: FakeServer) -> list[dict[str, Any]]:
    """Every event that was sent: the last line of an envelope."""
    bodies = [gzip.decompress(one.body) if one.body[:2] == b"\x1f\x8b" else one.body for one in fake.requests]
    return [json.loads(body.splitlines()[-1]) for body in bodies]


def dsn(fake: FakeServer) -> str:
    return f"http://key@127.0.0.1:{fake.port}/17"


class Sentry:
    """Alerts whose time stands still until it is moved, and the Sentry that they go to."""

    def __init__(self, fake: FakeServer) -> None:
        self.fake = fake
        self.now = 1_000.0
        self.metrics = Metrics()
        settings = Alerts(sentry=dsn(fake), environment="staging", collect_seconds=5.0, every_seconds=60.0)
        clock = Clock(monotonic=lambda: self.now)
        self.alerts = SentryAlerts(settings, "one", clock, self.metrics, lambda: 0.0)

    async def after(self, seconds: float) -> int:
        """How many events there were once so much time has passed."""
        self.now += seconds
        await self.alerts.run_once()
        return len(self.fake.requests)


@pytest.fixture
async def sentry() -> AsyncIterator[Sentry]:
    async with FakeServer(says(200, {"id": "1"})) as fake:
        yield Sentry(fake)


async def test_equal_errors_are_one_event_with_their_count_and_there_are_few(sentry: Sentry) -> None:
    for _ in range(3):
        sentry.alerts.add(CRASH)
    sentry.alerts.add(Kind("api.failed", "runs"))
    assert await sentry.after(0) == 0
    assert await sentry.after(5) == 2
    first, second = events(sentry.fake)
    assert (first["message"], first["extra"]["times"]) == ("part.crashed pipeline Fenced", 3)
    assert first["tags"]["place"] == "dispatcher/pipeline.py:1"
    assert (first["environment"], first["server_name"]) == ("staging", "one")
    assert first["fingerprint"] != second["fingerprint"]
    sentry.alerts.add(CRASH)
    assert await sentry.after(54) == 2
    assert await sentry.after(5) == 2
    assert await sentry.after(1) == 3
    assert sample_value(sentry.metrics.registry, "dispatcher_alerts_total", result="sent") == 2


async def test_further_kinds_are_one_event_with_their_count(sentry: Sentry) -> None:
    for number in range(KINDS_MAX + 4):
        sentry.alerts.add(Kind("part.crashed", str(number)))
    await sentry.after(0)
    assert await sentry.after(5) == KINDS_MAX + 1
    assert events(sentry.fake)[-1]["extra"]["times"] == 4


async def test_what_sentry_does_not_take_is_counted_as_failed(sentry: Sentry) -> None:
    sentry.fake.always = says(400, {})
    sentry.alerts.add(CRASH)
    await sentry.after(0)
    assert await sentry.after(5) == 1
    assert sample_value(sentry.metrics.registry, "dispatcher_alerts_total", result="failed") == 1


async def test_a_crash_of_the_program_is_an_event_without_content(
    program: Program, connection: Connection, sentry: Sentry
) -> None:
    await Outbox(connection).put()
    told = {"DISPATCHER_ALERTS__SENTRY": dsn(sentry.fake), "DISPATCHER_ALERTS__COLLECT_SECONDS": "0.01"}
    await program.start(**told, FAULT="claim.asked:1:raise")
    await program.until(lambda: sentry.fake.requests, "the crash is an event")
    (found,) = [one for one in events(sentry.fake) if one["tags"]["event"] == "part.crashed"]
    assert found["tags"]["part"] == "pipeline"
    assert not {"exception", "breadcrumbs", "modules", "request", "user"} & found.keys()
