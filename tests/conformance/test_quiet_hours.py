"""OP-12: quiet hours and send windows in the recipient's zone, for all lanes but the transactional one."""

import json
import signal
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dispatcher.db.database import Database
from dispatcher.db.health import checks
from tests.conformance.outbox import QUICK, Outbox
from tests.support.caller import Caller, make_key
from tests.support.program import Program
from tests.support.waits import until

BERLIN, TOKYO, REYKJAVIK = "+4917012345", "+819012345678", "+3546112345"
# Housekeeping comes round while a test waits.
BRISK = {"DISPATCHER_JANITOR__INTERVAL_SECONDS": "0.1"}


def _hour(hours: float) -> str:
    return f"{datetime.now(UTC) + timedelta(hours=hours):%H:%M}"


def _run(program: Program, *words: str) -> list[dict[str, Any]]:
    ended = program.run(*words, "--json")
    assert ended.returncode == 0, ended.stderr.decode()
    return [json.loads(line) for line in ended.stdout.splitlines()]


def _put(program: Program, *periods: str, channel: str = "all") -> None:
    """Save quiet hours. A program that runs hears of them a little later: put before its start they hold from its first
    claim."""
    _run(program, "quiet-hours", "put", channel, *periods, "--actor", "ann")


async def _waits(outbox: Outbox, program: Program, delivery: int) -> str:
    """Why it waits, once it does."""

    async def waiting() -> str | None:
        (shown,) = _run(program, "deliveries", "show", str(delivery))
        assert shown["status"] == "queued"
        return shown["waits"]  # type: ignore[no-any-return]  # JSON

    why = await until(waiting, "it waits")
    assert await outbox.life(delivery) == "pending"
    assert await outbox.captured(delivery) == []
    return str(why)


async def test_OP_12_what_may_not_go_now_waits_and_goes_when_it_may(program: Program, outbox: Outbox) -> None:
    """Its time shows in the life, the list and the timeline. What is transactional goes at any time."""
    _put(program, "--quiet", f"{_hour(-1)}-{_hour(2)}")
    await program.start(**BRISK)
    address = "ann@example.org"
    normal, bulk = [await outbox.put("email", recipient=address, lane=lane) for lane in (1, 2)]
    (why, _) = [await _waits(outbox, program, one) for one in (normal, bulk)]
    due = (await outbox.row(normal))["run_at"]
    assert why == f"quiet hours until {due:%Y-%m-%d %H:%M} UTC"
    urgent = await outbox.put("email", recipient=address, lane=0)
    await outbox.until_life(urgent, "sent")
    api = Caller(program, make_key(program, "systemAdmin"))
    listed = {one["id"]: one["waits"] for one in api.get("/deliveries").json["deliveries"]}
    assert listed == {normal: why, bulk: why, urgent: None}
    moved = {one["id"]: one["moved"] for one in api.get(f"/persons/timeline?address={address}").json["entries"]}
    assert moved[urgent] is None
    assert moved[bulk]["reason"] == why
    # The end of the quiet hours, as the clock would bring it.
    end = "UPDATE dispatcher.quiet_hours SET quiet = jsonb_set(quiet, '{0,to}', to_jsonb($1::text))"
    await outbox.connection.execute(end, _hour(-0.1))

    async def sent() -> bool:
        due_now = "UPDATE dispatcher.delivery_state SET run_at = now() WHERE ready AND run_at > now()"
        await outbox.connection.execute(due_now)
        return await outbox.count("sent") == len(listed)

    await until(sent, "all are sent")
    assert sorted(await outbox.captured()) == [normal, bulk, urgent]


async def test_OP_12_it_is_the_recipients_hour_that_counts(program: Program, outbox: Outbox) -> None:
    """A contact's own zone, else that of the number, else the workspace's."""
    _run(program, "settings", "put", "--time-zone", "Asia/Tokyo", "--actor", "ann")
    contact = ("--phone", "+61412345678", "--time-zone", "Asia/Tokyo")
    _run(program, "contacts", "put", "ann", *contact, "--actor", "ann")
    # From half an hour ago on by the clocks of Tokyo, where it is eight or nine hours later than in Berlin.
    _put(program, "--quiet", f"{_hour(8.5)}-{_hour(10)}")
    await program.start()
    for recipient, quiet in ((TOKYO, True), (BERLIN, False), ("+61412345678", True), ("+61412345679", True)):
        delivery = await outbox.put(recipient=recipient)
        if quiet:
            assert (await _waits(outbox, program, delivery)).endswith(" Asia/Tokyo")
        else:
            await outbox.until_life(delivery, "sent")


async def test_OP_12_what_would_expire_is_skipped_with_its_reason(program: Program, outbox: Outbox) -> None:
    _put(program, "--window", f"{_hour(2)}-{_hour(3)}")
    await program.start()
    delivery = await outbox.put(recipient=REYKJAVIK, expires_at=datetime.now(UTC) + timedelta(hours=1))
    await outbox.until_life(delivery, "skipped")
    assert (await outbox.row(delivery))["error"].startswith("expired: its quiet hours last until ")
    assert await outbox.captured() == []


async def test_OP_12_what_quiet_hours_have_moved_goes_when_they_are_changed_or_deleted(
    program: Program, second: Program, outbox: Outbox
) -> None:
    """With two replicas, one of which has claimed it."""
    _put(program, "--quiet", f"{_hour(-1)}-{_hour(2)}", channel="sms")
    await program.start()
    await second.start()
    ids = await outbox.fill(40)
    await _waits(outbox, program, ids[-1])
    _put(program, "--quiet", f"{_hour(-1)}-{_hour(3)}", channel="sms")
    await _waits(outbox, program, ids[0])
    assert await outbox.captured() == []
    _run(program, "quiet-hours", "delete", "sms", "--actor", "ann")
    await outbox.until_count(len(ids), "sent")
    assert sorted(await outbox.captured()) == ids


@pytest.mark.parametrize("point", ["quiet_hours.decided", "quiet_hours.moved"])
async def test_OP_12_death_between_claim_and_move_loses_nothing(
    program: Program, second: Program, outbox: Outbox, database: Database, point: str
) -> None:
    """The one that comes after moves what was not moved; when the quiet hours end each goes once."""
    _put(second, "--quiet", f"{_hour(-1)}-{_hour(2)}")
    await second.start(**QUICK, FAULT=f"{point}:1:kill9")
    ids = await outbox.fill(5)
    assert await second.ended(15) == -signal.SIGKILL
    await program.start(**QUICK)
    for one in ids:
        await _waits(outbox, program, one)
    _run(program, "quiet-hours", "delete", "all", "--actor", "ann")
    await outbox.until_count(len(ids), "sent")
    assert sorted(await outbox.captured()) == ids
    assert [found for name in checks.invariants() if (found := await checks.check(database, name))] == []
