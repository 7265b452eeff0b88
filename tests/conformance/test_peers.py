"""OP-14: replicas that have different providers for one channel never claim from it side by side."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

from dispatcher.config.settings import CHANNELS
from tests.channels.shared.web.fake_server import LOOPBACK, FakeServer
from tests.conformance.outbox import QUICK, Outbox
from tests.support.program import Program
from tests.support.waits import until

CALL = json.dumps({"body": '{"action": "create", "payload": {}}'})
FUNCTION = {"recipient": "bill", "template": CALL}
HOLE = {"DISPATCHER_CHANNELS__SMS__PROVIDER": "blackhole"}


def _function(fake: FakeServer) -> dict[str, str]:
    """The channel `http` calls a real function."""
    return QUICK | {
        "DISPATCHER_CHANNELS__HTTP__PROVIDER": "functions",
        "DISPATCHER_FUNCTIONS__BILL__URL": fake.url,
        "DISPATCHER_FUNCTIONS__BILL__ALLOW_ADDRESSES": LOOPBACK,
    }


def _sent(program: Program, channel: str = "sms") -> float:
    return program.metric("dispatcher_outcomes_total", channel=channel, outcome="succeeded")


def _disagrees(program: Program, channel: str = "sms") -> bool:
    return bool(program.metric("dispatcher_channel_disagrees", channel=channel))


def _readiness(program: Program) -> tuple[int, dict[str, Any]]:
    status, body = program.get("/readyz")
    return status, json.loads(body)


async def _done(outbox: Outbox, number: int, *programs: Program) -> list[float]:
    """Write so many, and answer how many each of these sent when all are through."""
    before = [_sent(one) for one in programs]
    sent = await outbox.count("sent")
    await outbox.fill(number)
    await outbox.until_count(sent + number, "sent")

    def counted() -> list[float]:
        return [_sent(one) - was for one, was in zip(programs, before, strict=True)]

    await until(lambda: sum(counted()) == number, "each has counted its own")
    return counted()


async def test_OP_14_a_newcomer_that_captures_takes_nothing_from_a_real_function(
    program: Program, second: Program, outbox: Outbox, bill: FakeServer
) -> None:
    bill.requests.clear()
    await program.start(**_function(bill))
    await second.start(**QUICK)
    for _ in range(80):
        await outbox.put("http", **FUNCTION)
    await outbox.until_count(80, "sent", "http")
    assert await outbox.captured() == []
    assert len(bill.requests) == 80
    assert _disagrees(second, "http")
    assert not _disagrees(program, "http")
    status, said = _readiness(second)
    assert (status, said["ready"], said["reasons"]) == (200, True, [])
    assert "http" in said["warnings"][0]
    (line,) = second.events("channel.disagrees")
    assert (line["level"], line["channel"], line["here"], line["there"]) == ("warning", "http", "capture", "functions")
    assert not program.events("channel.disagrees")
    checked = json.loads(program.run("check", "--json").stdout)
    assert (checked["holds"], [one["channel"] for one in checked["yielded"]]) == (True, ["http"])


async def test_OP_14_of_two_that_start_at_once_one_claims_until_it_is_killed(
    program: Program, second: Program, outbox: Outbox
) -> None:
    await asyncio.gather(program.start(**QUICK, **HOLE), second.start(**QUICK))
    await until(lambda: _disagrees(program) != _disagrees(second), "one yields")
    works, waits = (second, program) if _disagrees(program) else (program, second)
    assert await _done(outbox, 100, works, waits) == [100, 0]
    assert len(await outbox.captured()) == (100 if works is second else 0)
    await works.kill()
    assert await _done(outbox, 20, waits) == [20]
    assert len(await outbox.captured()) == (100 if works is second else 20)
    assert not _disagrees(waits)
    (line,) = waits.events("channel.agrees")
    assert line["channels"] == ["sms"]
    assert len(waits.events("channel.disagrees")) == 1


async def test_OP_14_who_reloads_another_provider_waits_until_the_other_has_reloaded_it_too(
    program: Program, second: Program, outbox: Outbox, config_file: Path
) -> None:
    config_file.write_text("")
    few = {"DISPATCHER_CLAIM__LANE_CAPACITY": "20", "DISPATCHER_CHANNELS__SMS__MARKED_MAX": "10"}
    settings = QUICK | few | {"DISPATCHER_CONFIG": str(config_file)}
    await asyncio.gather(program.start(**settings), second.start(**settings))
    before = await outbox.fill(400)
    await until(lambda: _sent(program) and _sent(second), "both are at work")
    config_file.write_text('[channels.sms]\nprovider = "blackhole"\n')
    program.signal(signal.SIGHUP)
    await until(lambda: _disagrees(program), "the one that has changed waits")
    await outbox.until_count(400, "sent")
    assert await _done(outbox, 100, program, second) == [0, 100]
    # What the one that changed had claimed and not begun was sent by the other, to the provider that is in force.
    captured = await outbox.captured()
    assert len(captured) == 500
    assert set(before) < set(captured)
    second.signal(signal.SIGHUP)
    await until(lambda: not _disagrees(program), "they agree")
    await outbox.fill(400)
    await outbox.until_count(900, "sent")
    assert len(await outbox.captured()) == 500
    assert not second.events("channel.disagrees")
    await until(lambda: min(_sent(program), _sent(second)) >= 20, "both are at work again")


async def test_OP_14_how_fast_a_channel_works_is_nothing_to_agree_on(
    program: Program, second: Program, outbox: Outbox
) -> None:
    slow = {"DISPATCHER_CHANNELS__SMS__RATE_PER_SECOND": "5000", "DISPATCHER_CHANNELS__SMS__MARKED_MAX": "50"}
    await asyncio.gather(program.start(**QUICK), second.start(**QUICK, **slow))
    await second.until(lambda: second.events("config.differs"), "it knows that the other is different")
    assert not _disagrees(program)
    assert not _disagrees(second)


async def test_OP_14_who_may_claim_from_no_channel_is_not_ready(program: Program, second: Program) -> None:
    await program.start(**QUICK)
    elsewhere = {f"DISPATCHER_CHANNELS__{name.upper()}__PROVIDER": "blackhole" for name in CHANNELS}
    await second.launch(**QUICK, **elsewhere)
    await second.until(lambda: _readiness(second)[0] == 503 and _readiness(second)[1]["warnings"], "it is not ready")
    _, said = _readiness(second)
    assert said["reasons"] == ["other replicas have other providers for every channel"]
    assert len(said["warnings"]) == len(CHANNELS)
    assert await program.stop() == 0
    await second.until(lambda: _readiness(second)[0] == 200, "it takes over")
