"""OP-10: what fails in the dispatcher itself goes to Slack: collected, rate-limited, and hindering nobody."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.channels.shared.web.fake_server import LOOPBACK, FakeServer, Silent, dropped, json_of, says
from tests.conformance.outbox import QUICK, Outbox
from tests.support.program import Program

OK = says(200, raw=b"ok")
BRIEF = {"DISPATCHER_ALERTS__COLLECT_SECONDS": "0.01", "DISPATCHER_ALERTS__EVERY_SECONDS": "0.01"}
# What comes after the first message waits for the next one, which is that of the end.
RARE = BRIEF | {"DISPATCHER_ALERTS__EVERY_SECONDS": "86400"}
CRASH = "claim.asked:1:raise"


@pytest.fixture
async def slack() -> AsyncIterator[FakeServer]:
    """A webhook of Slack."""
    async with FakeServer(OK) as fake:
        yield fake


def at(slack: FakeServer) -> dict[str, str]:
    """A dispatcher that tells it there."""
    return {
        "DISPATCHER_ALERTS__SLACK": slack.url,
        "DISPATCHER_ALERTS__ALLOW_ADDRESSES": LOOPBACK,
        "DISPATCHER_ALERTS__ENVIRONMENT": "staging",
        "DISPATCHER_INSTANCE__NAME": "one",
    } | QUICK


def texts(slack: FakeServer) -> list[str]:
    """Every message."""
    return [str(json_of(request)["text"]) for request in slack.requests]


def told(program: Program, result: str) -> float:
    """How many messages came to this end."""
    return program.metric("dispatcher_alerts_total", result=result)


def crashed(program: Program) -> float:
    """How often the pipeline did."""
    return program.metric("dispatcher_restarts_total", part="pipeline")


async def test_OP_10_crashes_are_counted_and_told_in_one_message_a_period(
    program: Program, outbox: Outbox, slack: FakeServer
) -> None:
    deliveries = [await outbox.put()]
    await program.start(**at(slack) | RARE, FAULT=f"{CRASH},render.done:2:raise,mark.asked:2:raise")
    await outbox.until_life(deliveries[0], "sent")
    await program.until(lambda: slack.requests, "the first crash is told")
    deliveries.append(await outbox.put(body="told to nobody else", recipient="+4917099999"))
    await program.until(lambda: crashed(program) == 3, "each other crash has come")
    await outbox.until_life(deliveries[1], "sent")
    assert len(slack.requests) == 1
    assert await program.stop() == 0
    first, second = texts(slack)
    assert first.startswith("staging: one has 1 error\n")
    assert "part.crashed pipeline: FaultPointError at dispatcher/base/fault_points.py:" in first
    assert second.startswith("staging: one has 2 errors\n")
    assert "(2 times, " in second
    assert not [word for word in ("told to nobody", "+49170", "postgresql:") if word in first + second]


async def test_OP_10_while_slack_is_away_the_dispatcher_goes_on_and_what_waits_is_told_when_it_is_back(
    program: Program, outbox: Outbox, slack: FakeServer
) -> None:
    slack.always = dropped
    delivery = await outbox.put()
    await program.start(**at(slack) | BRIEF, FAULT=CRASH)
    await program.until(lambda: told(program, "failed") >= 2, "it was tried, and tried again")
    await outbox.until_life(delivery, "sent")
    slack.always = OK
    await program.until(lambda: told(program, "sent") == 1, "it is told")
    assert "has 1 error\n" in texts(slack)[-1]
    assert await program.stop() == 0


async def test_OP_10_while_slack_is_silent_the_dispatcher_goes_on(
    program: Program, outbox: Outbox, slack: FakeServer
) -> None:
    slack.always = silent = Silent()
    delivery = await outbox.put()
    await program.start(**at(slack) | BRIEF, FAULT=CRASH)
    await program.until(silent.begun.is_set, "it is told")
    await outbox.until_life(delivery, "sent")
    assert told(program, "failed") == told(program, "sent") == 0
    silent.let_go.set()
    await program.until(lambda: told(program, "sent") == 1, "it is told")


async def test_OP_10_an_end_by_an_error_is_told_before_it(program: Program, outbox: Outbox, slack: FakeServer) -> None:
    await outbox.put()
    await program.launch(**at(slack) | RARE, DISPATCHER_SUPERVISOR__RESTARTS_MAX="0", FAULT=CRASH)
    assert await program.ended() == 1
    (text,) = texts(slack)[-1:]
    assert "process.failed: RestartBudgetSpent at dispatcher/engine/supervisor.py:" in text
    assert "part.crashed pipeline" in "".join(texts(slack))


async def test_OP_10_a_port_that_is_taken_is_told(program: Program, slack: FakeServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        program.environment = at(slack) | RARE
        program.environment |= {"DISPATCHER_HTTP__PORT": port}
        ended = await asyncio.to_thread(program.run, "serve")
    assert ended.returncode == 1
    assert "process.failed: ListenerError at dispatcher/http/server/listener.py:" in "".join(texts(slack))


async def test_OP_10_alerts_come_and_change_with_a_reload_and_a_faulty_one_is_told(
    program: Program, slack: FakeServer, config_file: Path
) -> None:
    config_file.write_text("")
    await program.start(DISPATCHER_CONFIG=str(config_file), **QUICK)
    settings: dict[str, Any] = {"slack": slack.url, "allow_addresses": LOOPBACK, "environment": "by reload"}
    lines = [f'{key} = "{value}"' for key, value in settings.items()]
    config_file.write_text("\n".join(["[alerts]", "collect_seconds = 0.01", *lines]))
    program.signal(signal.SIGHUP)
    (reloaded,) = await program.until(lambda: program.events("config.reloaded"), "it is applied")
    assert set(reloaded["applied"]) == {f"alerts.{key}" for key in (*settings, "collect_seconds")}
    assert slack.url not in str(program.lines())
    config_file.write_text("[alerts]\nslack = 'hunter2'")
    program.signal(signal.SIGHUP)
    await program.until(lambda: slack.requests, "the refusal is told")
    assert texts(slack)[0].startswith("by reload: ")
    assert "config.refused: ConfigError" in texts(slack)[0]
    assert "hunter2" not in texts(slack)[0]
