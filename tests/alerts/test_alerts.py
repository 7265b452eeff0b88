"""Properties of alerts: equal errors are counted, messages are few, memory is bounded, and no content is posted."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import structlog
from msgspec import structs

from dispatcher.alerts import SlackAlerts, slack
from dispatcher.alerts.collected import KINDS_MAX, Batch, Collected, Kind, Seen
from dispatcher.alerts.log_handler import IGNORED_EVENTS, LIBRARY_EVENT, ErrorHandler
from dispatcher.alerts.message import message
from dispatcher.base.clock import Clock
from dispatcher.base.metrics import Metrics
from dispatcher.config import logs
from dispatcher.config.settings import Alerts, Log
from tests.channels.shared.web.fake_server import LOOPBACK, FakeServer, Silent, dropped, json_of, says
from tests.support.forks import ROOT
from tests.support.metering import sample_value

OK = says(200, raw=b"ok")
CRASH = Kind("part.crashed", "pipeline", "Fenced", "dispatcher/pipeline.py:1")
SECRET = "hunter2 for ann@example.org"


# What is collected


def test_equal_errors_are_one_kind_with_their_count_and_their_times() -> None:
    collected = Collected()
    for at in (1.0, 3.0, 2.0):
        assert collected.add(CRASH, at)
    assert collected.take() == Batch({CRASH: Seen(3, 1.0, 3.0)})
    assert not collected


def test_kinds_are_bounded_and_what_is_over_is_counted() -> None:
    collected = Collected()
    kept = [collected.add(structs.replace(CRASH, part=str(number)), 1.0) for number in range(KINDS_MAX + 3)]
    assert kept == [True] * KINDS_MAX + [False] * 3
    assert collected.add(structs.replace(CRASH, part="0"), 2.0)
    batch = collected.take()
    assert (len(batch.kinds), batch.left_out, batch.errors) == (KINDS_MAX, 3, KINDS_MAX + 4)


def test_alerts_put_back_are_merged_with_newer_ones() -> None:
    collected = Collected()
    collected.add(CRASH, 1.0)
    batch = collected.take()
    collected.add(CRASH, 5.0)
    assert collected.put_back(batch) == 0
    assert collected.take() == Batch({CRASH: Seen(2, 1.0, 5.0)})


def test_alerts_put_back_take_precedence_when_there_is_no_room() -> None:
    collected = Collected()
    collected.add(CRASH, 1.0)
    batch = collected.take()
    for number in range(KINDS_MAX):
        collected.add(structs.replace(CRASH, part=str(number)), 2.0)
    assert collected.put_back(batch) == 1
    again = collected.take()
    assert CRASH in again.kinds
    assert (len(again.kinds), again.left_out) == (KINDS_MAX, 1)


# The words


def text(batch: Batch, environment: str = "production", instance: str = "one") -> str:
    said = json.loads(message(batch, environment, instance))
    assert set(said) == {"text"}
    return str(said["text"])


def test_a_message_has_environment_instance_kinds_counts_and_times() -> None:
    batch = Batch({CRASH: Seen(3, 0.0, 61.0), Kind("api.failed", "runs"): Seen(1, 86_400.0, 86_400.0)}, 2)
    assert text(batch).splitlines() == [
        "production: one has 6 errors",
        "• part.crashed pipeline: Fenced at dispatcher/pipeline.py:1 (3 times, 1970-01-01 00:00:00 to 00:01:01 UTC)",
        "• api.failed runs (once, 1970-01-02 00:00:00 UTC)",
        "• and 2 of further kinds, which only the log has",
    ]


def test_a_name_is_escaped_in_markup_and_lines() -> None:
    said = text(Batch({Kind("a", "<!channel>\n• forged & \udfff"): Seen(1, 0.0, 0.0)}), "", "x" * 5)
    assert "&lt;!channel&gt;• forged &amp;" in said
    assert len(said.splitlines()) == 2
    assert said.startswith("xxxxx has 1 error\n")


def test_the_longest_message_is_one_that_slack_takes_whole() -> None:
    kinds = {Kind("e" * 999, f"{n}" * 999, "x" * 999, "y" * 999): Seen(10**9, 0.0, 1e9) for n in range(KINDS_MAX)}
    assert len(text(Batch(kinds, 10**9), "e" * 64, "i" * 255)) < 40_000


# What is collected from the log


@pytest.fixture
def handled() -> Iterator[list[Kind]]:
    """The errors that a handler on the program's own log collects."""
    root, found = logging.getLogger(), list[Kind]()
    before, level, handler = root.handlers, root.level, ErrorHandler(found.append)
    configured = structlog.get_config()
    try:
        logs.configure(Log(level="error"))
        root.addHandler(handler)
        yield found
    finally:
        root.handlers, structlog_as_it_was = before, configured
        root.setLevel(level)
        structlog.configure(**structlog_as_it_was)


def crash() -> None:
    """A bug, whose words quote what they must not."""
    raise ValueError(SECRET)


def test_an_error_is_collected_by_its_event_its_part_its_class_and_its_place(handled: list[Kind]) -> None:
    log = structlog.get_logger()
    try:
        logs.set_level(None)  # type: ignore[arg-type]  # a crash inside our own code
    except AttributeError:
        log.exception("part.crashed", part="pipeline", error=SECRET, recipient=SECRET)
    (kind,) = handled
    assert (kind.event, kind.part, kind.error) == ("part.crashed", "pipeline", "AttributeError")
    assert kind.place.startswith("dispatcher/config/logs.py:")


@pytest.mark.parametrize("how", ["current", "given", "grouped"])
def test_the_class_is_that_of_the_exception_itself(handled: list[Kind], how: str) -> None:
    log = structlog.get_logger()
    try:
        crash()
    except ValueError as error:
        match how:
            case "current":
                log.error("api.failed", operation="listRuns")  # noqa: TRY400 - the line is without a traceback
            case "given":
                log.error("api.failed", operation="listRuns", exc_info=error)  # noqa: TRY400 - as above
            case _:
                group = ExceptionGroup("outer", [ExceptionGroup(SECRET, [error])])
                log.error("api.failed", operation="listRuns", exc_info=group)  # noqa: TRY400 - as above
    (kind,) = handled
    assert (kind.event, kind.part, kind.error) == ("api.failed", "listRuns", "ValueError")
    assert kind.place.startswith("test_alerts.py:")


def test_errors_logged_by_libraries_are_collected_without_their_text(handled: list[Kind]) -> None:
    logging.getLogger("asyncio").error(SECRET)
    assert handled == [Kind(LIBRARY_EVENT, "asyncio")]


def test_no_warning_is_collected_and_nothing_that_users_have_saved(handled: list[Kind]) -> None:
    log = structlog.get_logger()
    log.warning("channel.unready", channel="sms")
    for event in IGNORED_EVENTS:
        log.error(event)
    log.error("run.poison", run_id=17)
    assert handled == [Kind("run.poison")]


def test_errors_without_an_alert_are_still_logged() -> None:
    source = "".join(path.read_text() for path in (ROOT / "dispatcher").rglob("*.py") if path.name != "ear.py")
    assert [event for event in IGNORED_EVENTS if f'("{event}"' not in source] == []


# Messages


class Slack:
    """Alerts whose time stands still until it is moved, and the Slack that it posts to."""

    def __init__(self, fake: FakeServer) -> None:
        self.fake = fake
        self.now = 1_000.0
        self.away_since: float | None = None
        self.metrics = Metrics()
        settings = Alerts(slack=fake.url, allow_addresses=LOOPBACK, collect_seconds=5.0, every_seconds=60.0)
        clock = Clock(monotonic=lambda: self.now)
        self.alerts = SlackAlerts(settings, "one", lambda: self.away_since, clock, self.metrics, lambda: 0.0)

    async def after(self, seconds: float) -> int:
        """How many messages there were once so much time has passed."""
        self.now += seconds
        await self.alerts.run_once()
        return len(self.fake.requests)

    def set(self, **changed: Any) -> None:
        """Another configuration."""
        self.alerts.adopt(structs.replace(self.alerts.settings, **changed))

    def last(self) -> str:
        """The last message."""
        return str(json_of(self.fake.requests[-1])["text"])

    def counted(self, result: str) -> float | None:
        """How many messages came to this end."""
        return sample_value(self.metrics.registry, "dispatcher_alerts_total", result=result)


@pytest.fixture
async def posted() -> AsyncIterator[Slack]:
    """Nothing has happened yet."""
    async with FakeServer(OK) as fake:
        yield Slack(fake)


async def test_the_first_error_waits_for_others_and_then_there_is_one_message(posted: Slack) -> None:
    assert await posted.after(1) == 0
    for _ in range(3):
        posted.alerts.add(CRASH)
        assert await posted.after(1) == 0
    assert await posted.after(3) == 1
    assert "one has 3 errors" in posted.last()
    assert "(3 times, " in posted.last()
    assert await posted.after(1_000) == 1
    assert posted.counted("sent") == 1


async def test_there_is_one_message_a_period_and_the_next_one_has_what_came_meanwhile(posted: Slack) -> None:
    posted.alerts.add(CRASH)
    assert await posted.after(0) == 0
    assert await posted.after(5) == 1
    for _ in range(50):
        posted.alerts.add(CRASH)
        assert await posted.after(1) == 1
    assert await posted.after(9) == 1
    assert await posted.after(1) == 2
    assert "(50 times, " in posted.last()


@pytest.mark.parametrize(
    "trouble", [dropped, says(500), says(404, raw=b"no_service"), says(302, Location="https://example.org")]
)
async def test_a_failed_alert_is_repeated_a_period_later_with_newer_ones(posted: Slack, trouble: Any) -> None:
    posted.fake.next.append(trouble)
    posted.alerts.add(CRASH)
    await posted.after(0)
    assert await posted.after(5) == 1
    assert posted.counted("failed") == 1
    posted.alerts.add(CRASH)
    assert await posted.after(59) == 1
    assert await posted.after(1) == 2
    assert "one has 2 errors" in posted.last()
    assert (posted.counted("failed"), posted.counted("sent")) == (1, 1)


async def test_slack_is_left_alone_for_as_long_as_it_asks_but_not_at_another_url(posted: Slack) -> None:
    posted.fake.next += [says(429, retry_after="3000")] * 2
    posted.alerts.add(CRASH)
    await posted.after(0)
    assert await posted.after(5) == 1
    assert await posted.after(2_999) == 1
    assert await posted.after(1) == 2
    posted.set(environment="production")
    assert await posted.after(100) == 2
    posted.set(slack=posted.fake.url + "/other")
    assert await posted.after(0) == 3
    assert posted.last().startswith("production: one has 1 error")


async def test_a_forbidden_address_is_not_connected_to(posted: Slack) -> None:
    posted.set(allow_addresses="")
    posted.alerts.add(CRASH)
    await posted.after(0)
    assert await posted.after(5) == 0
    assert posted.counted("failed") == 1


async def test_without_a_url_nothing_is_kept(posted: Slack) -> None:
    url = posted.alerts.settings.slack
    posted.alerts.add(CRASH)
    posted.set(slack="")
    posted.alerts.add(CRASH)
    await posted.after(100)
    posted.set(slack=url)
    assert await posted.after(100) == 0
    assert await posted.after(100) == 0


async def test_kinds_that_were_forgotten_are_counted_and_told(posted: Slack) -> None:
    for number in range(KINDS_MAX + 4):
        posted.alerts.add(structs.replace(CRASH, part=str(number)))
    await posted.after(0)
    assert await posted.after(5) == 1
    assert sample_value(posted.metrics.registry, "dispatcher_alerts_dropped_total") == 4
    assert "and 4 of further kinds" in posted.last()


async def test_each_outage_is_reported_once(posted: Slack, handled: list[Kind]) -> None:
    posted.away_since = posted.now
    await posted.after(29)
    assert handled == []
    await posted.after(1)
    await posted.after(100)
    assert handled == [Kind("database.away_long")]
    posted.away_since = None
    await posted.after(1)
    posted.away_since = posted.now
    await posted.after(31)
    assert handled == [Kind("database.away_long")] * 2


# While the program runs


async def test_an_end_by_an_error_is_told_at_once_with_what_still_waits(posted: Slack, handled: list[Kind]) -> None:
    async def run() -> None:
        async with posted.alerts.collecting():
            structlog.get_logger().error("results.unwritten")
            crash()

    with pytest.raises(ValueError, match="hunter2"):
        await run()
    assert [line.split(" (")[0].split(" at ")[0] for line in posted.last().splitlines()] == [
        "one has 2 errors",
        "• results.unwritten",
        "• process.failed: ValueError",
    ]
    assert "hunter2" not in posted.last()
    assert len(posted.fake.requests) == 1


async def test_an_end_without_an_error_sends_nothing(posted: Slack, handled: list[Kind]) -> None:
    async with posted.alerts.collecting():
        pass
    assert posted.fake.requests == []


async def test_no_end_waits_for_a_slack_that_is_silent(
    posted: Slack, handled: list[Kind], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slack, "LAST_MESSAGE_SECONDS_MAX", 0.05)
    posted.fake.always = silent = Silent()
    async with asyncio.timeout(slack.CALL_SECONDS_MAX):
        async with posted.alerts.collecting():
            structlog.get_logger().error("results.unwritten")
    assert silent.begun.is_set()
    silent.let_go.set()


async def test_it_goes_on_by_itself(posted: Slack, handled: list[Kind]) -> None:
    posted.set(collect_seconds=0.001)
    posted.fake.always = silent = Silent()
    silent.let_go.set()
    async with posted.alerts.collecting():
        structlog.get_logger().error("results.unwritten")
        while not silent.begun.is_set():
            posted.now += 1
            await asyncio.sleep(0.01)
    assert "results.unwritten" in posted.last()
