"""OB-19 to OB-21: what time and operators may do to a delivery until it is marked: expire, cancel, move, pause."""

import json
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import asyncpg
import pytest

from tests.conformance.outbox import PATIENT, Outbox, faults, hanging, once
from tests.support.program import Program
from tests.support.waits import until, until_blocked, until_heeded

# Housekeeping comes round while a test waits.
BRISK = {"DISPATCHER_JANITOR__INTERVAL_SECONDS": "0.1"}
LATER = datetime(2040, 1, 1, tzinfo=UTC)
SCOPES = {"channel": "sms", "provider": "capture", "tenant": "acme", "template": "welcome"}


def _soon(seconds: float = 1.0) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


async def _put(outbox: Outbox, key: str, **columns: Any) -> int:
    """A delivery of the tenant and with the template that can be paused."""
    row = {"idempotency_key": key, "channel": "sms", "recipient": "+4917012345", "template": '{"body": "x"}'}
    row |= {"tenant_id": "acme", "template_name": "welcome"} | columns
    places = ", ".join(f"${number}" for number in range(1, len(row) + 1))
    insert = f"INSERT INTO dispatcher.deliveries ({', '.join(row)}) VALUES ({places}) RETURNING id"
    return int(await outbox.connection.fetchval(insert, *row.values()))


async def _call(outbox: Outbox, function: str, *arguments: object) -> Any:
    places = ", ".join(f"${number}" for number in range(1, len(arguments) + 1))
    return await outbox.connection.fetchval(f"SELECT dispatcher.{function}({places})", *arguments)


async def _expired(outbox: Outbox, delivery: int) -> None:
    await outbox.until_life(delivery, "skipped")
    row = await outbox.row(delivery)
    assert (row["error"], row["attempts"]) == ("expired", 0)
    assert await outbox.captured(delivery) == []


async def test_OB_19_what_waits_expires(program: Program, outbox: Outbox) -> None:
    """Due already, not due yet, and in a lane that has stopped; what expires later is sent."""
    await _call(outbox, "pause_everywhere", "channel", "voice", "ann", "no lines")
    late = await outbox.put(expires_at=_soon(-1))
    await program.start(**BRISK)
    waiting = await outbox.put(expires_at=_soon(), run_at=LATER)
    stopped = await outbox.put("voice", expires_at=_soon())
    fine = await outbox.put(expires_at=LATER)
    for delivery in (late, waiting, stopped):
        await _expired(outbox, delivery)
    await outbox.until_life(fine, "sent")


@pytest.mark.parametrize("scope", ["tenant", "template"])
async def test_OB_19_what_is_parked_expires(program: Program, outbox: Outbox, scope: str) -> None:
    await _call(outbox, "pause_everywhere", scope, SCOPES[scope], "ann", "wrong logo")
    await program.start(**BRISK)
    delivery = await _put(outbox, "parked", expires_at=_soon())
    await outbox.until_life(delivery, "parked")
    await _expired(outbox, delivery)


async def test_OB_19_what_expires_between_claim_and_mark_is_not_sent(program: Program, outbox: Outbox) -> None:
    """Its dispatcher stands still with it at hand, and when it goes on it is too late."""
    await program.start(**BRISK, FAULT="mark.asked:1:stall=2")
    await _expired(outbox, await outbox.put(expires_at=_soon(1.5)))


async def test_OB_19_what_was_only_ever_throttled_for_a_day_expires(program: Program, outbox: Outbox) -> None:
    """Put off by its tenant's limit; one that had an attempt is not given up; and who sends it again starts anew."""
    # Before anybody claims it: who has, writes back the attempts that it has seen.
    tired, tried, fresh = [await outbox.put() for _ in range(3)]
    await outbox.connection.execute("UPDATE dispatcher.delivery_state SET attempt = 1 WHERE id = $1", tried)
    await program.start(
        **BRISK,
        DISPATCHER_CHANNELS__SMS__FAULTS__THROTTLE="1",
        DISPATCHER_CHANNELS__SMS__FAULTS__THROTTLE_SECONDS="0.2",
    )
    throttled = "SELECT throttled_since FROM dispatcher.delivery_state WHERE id = $1"
    for delivery in (tired, tried, fresh):
        await until(partial(outbox.connection.fetchval, throttled, delivery), "it was throttled")
    yesterday = """UPDATE dispatcher.delivery_state SET throttled_since = throttled_since - interval '24 hours'
                    WHERE id = ANY ($1::bigint[])"""
    await outbox.connection.execute(yesterday, [tired, tried])
    await _expired(outbox, tired)
    assert await _call(outbox, "reopen_delivery", tired, "ann", "the limit was wrong") == "reopened"
    anew = """SELECT status <> 'queued' OR throttled_since > now() - interval '1 hour'
                FROM dispatcher.delivery_state WHERE id = $1"""
    await until(partial(outbox.connection.fetchval, anew, tired), "its day begins anew")
    assert [(await outbox.row(one))["status"] for one in (tired, tried, fresh)] == ["queued"] * 3


def _cli(program: Program, *words: str) -> tuple[int, list[dict[str, Any]]]:
    ended = program.run(*words, "--json", "--reason", "asked", "--actor", "ann")
    return ended.returncode, [json.loads(line) for line in ended.stdout.splitlines()]


async def test_OB_20_a_delivery_is_cancelled_or_moved_until_it_is_marked(program: Program, outbox: Outbox) -> None:
    """What waits and what is claimed, by id; and what is marked or sent is refused."""
    # One of the channel's three slots is its lane's: one is called and never answered, what is behind it stays claimed.
    few = {"DISPATCHER_CHANNELS__CHAT__MARKED_MAX": "3", "DISPATCHER_INSTANCE__GRACE_SECONDS": "0.1"}
    await program.start(**BRISK, **hanging("chat"), **few)
    sending, *claimed = await outbox.fill(3, "chat")
    await outbox.until_life(sending, "sending")
    await outbox.until_count(2, "claimed")
    sent = await outbox.put()
    await outbox.until_life(sent, "sent")
    waiting, planned = await outbox.put(run_at=LATER), await outbox.put(run_at=LATER)
    for cancelled, moved in ((waiting, planned), claimed):
        assert await _call(outbox, "cancel_delivery_by_id", cancelled, "ann", "asked") == "cancelled"
        assert await _call(outbox, "move_delivery", moved, LATER, "ann", "asked") == "moved"
        assert (await outbox.row(cancelled))["error"] == "cancelled: asked"
        assert (await outbox.row(moved))["run_at"] == LATER
    assert await _call(outbox, "cancel_delivery_by_id", sending, "ann", "asked") == "sending"
    assert await _call(outbox, "move_delivery", sending, LATER, "ann", "asked") == "sending"
    assert await _call(outbox, "cancel_delivery_by_id", sent, "ann", "asked") == "sent"
    # Whoever had claimed them finds that out at the mark: here at the latest when it stops.
    assert await program.stop() == 0
    assert await outbox.captured(*claimed, waiting, planned) == []
    assert [await outbox.life(one) for one in claimed] == ["skipped", "pending"]


async def test_OB_20_by_key_through_the_view(program: Program, outbox: Outbox) -> None:
    await program.start(**BRISK, **hanging("chat"))
    gone, moved, sending = [
        await outbox.put(channel, run_at=run_at, idempotency_key=f"order-{channel}")
        for channel, run_at in (("sms", LATER), ("email", LATER), ("chat", _soon(0)))
    ]
    await outbox.until_life(sending, "sending")
    cancel = "UPDATE dispatcher.channel_outbox SET status = 'skipped', error = 'asked' WHERE idempotency_key = $1"
    move = "UPDATE dispatcher.channel_outbox SET run_at = now() WHERE idempotency_key = $1"
    assert await outbox.connection.execute(cancel, "order-sms") == "UPDATE 1"
    assert await outbox.connection.execute(move, "order-email") == "UPDATE 1"
    await outbox.until_life(moved, "sent")
    assert await outbox.life(gone) == "skipped"
    for late in (cancel, move):
        with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="too late"):
            await outbox.connection.execute(late, "order-chat")


async def test_OB_20_from_the_command_line(program: Program, outbox: Outbox) -> None:
    await program.start(**BRISK, **hanging("chat"))
    gone, moved, sending = [
        await outbox.put(channel, run_at=run_at)
        for channel, run_at in (("sms", LATER), ("sms", LATER), ("chat", _soon(0)))
    ]
    await outbox.until_life(sending, "sending")
    assert _cli(program, "deliveries", "move", str(moved), "--at", "2020-01-01T00:00:00Z")[0] == 0
    code, (cancelled, refused) = _cli(program, "deliveries", "cancel", str(gone), str(sending))
    assert (code, cancelled["answer"], refused["answer"]) == (1, "cancelled", "sending")
    await outbox.until_life(moved, "sent")
    assert await outbox.life(gone) == "skipped"


@pytest.mark.parametrize("action", [("cancel",), ("move", "--at", "2020-01-01T00:00:00Z")], ids=["cancel", "move"])
async def test_OB_20_by_key_from_the_command_line(program: Program, outbox: Outbox, action: tuple[str, ...]) -> None:
    delivery = await outbox.put(run_at=LATER, idempotency_key="order-1")
    assert _cli(program, "deliveries", *action, "--key", "order-1")[0] == 0
    assert await outbox.life(delivery) == ("skipped" if action[0] == "cancel" else "pending")
    assert (await outbox.row(delivery))["run_at"] == (
        LATER if action[0] == "cancel" else datetime(2020, 1, 1, tzinfo=UTC)
    )


@pytest.mark.parametrize("action", [("cancel",), ("move", "--at", "2020-01-01T00:00:00Z")], ids=["cancel", "move"])
async def test_OB_20_by_several_keys_of_a_workspace_and_by_id(
    program: Program, outbox: Outbox, action: tuple[str, ...]
) -> None:
    """Each once, however it was named, and the same key of another workspace is another delivery's."""
    theirs: dict[str, Any] = {"tenant_id": "acme", "workspace_id": "blue", "run_at": LATER}
    first, second = [await outbox.put(idempotency_key=key, **theirs) for key in ("order-1", "order-2")]
    other, by_id = await outbox.put(idempotency_key="order-1", run_at=LATER), await outbox.put(run_at=LATER)
    keys = [word for key in ("order-1", "order-2", "order-1") for word in ("--key", key)]
    code, said = _cli(
        program, "deliveries", *action, str(by_id), str(first), *keys, "--tenant", "acme", "--workspace", "blue"
    )
    assert (code, [one["done"] for one in said]) == (0, [True] * 3)
    assert [(one["id"], one.get("key")) for one in said] == [(by_id, None), (first, None), (second, "order-2")]
    now = [await outbox.row(one) for one in (by_id, first, second)]
    assert all(row["run_at"] != LATER or row["skipped"] for row in now)
    assert (await outbox.row(other))["run_at"] == LATER
    assert await outbox.life(other) == "pending"


@pytest.mark.parametrize("action", ["cancel", "move"])
async def test_OB_20_every_fault_is_named_at_once_and_nothing_is_half_done(
    program: Program, outbox: Outbox, action: str
) -> None:
    delivery, by_key = await outbox.put(run_at=LATER), await outbox.put(run_at=LATER, idempotency_key="order-1")
    at = ("--at", "tomorrow") if action == "move" else ()
    sound = ("--at", "2020-01-01T00:00:00Z") if action == "move" else ()
    keys = ("--key", "order-1", "--key", "order-7", "--key", "order-8", "--json")
    cases = [
        (
            2,
            [*at, *keys, str(delivery), "--reason", " ", "--actor", ""],
            ["--at"] * bool(at) + ["--reason", "--actor", "--key", "--key"],
        ),
        (1, [*sound, *keys, str(delivery), "--reason", "asked"], ["--key", "--key"]),
        (2, [*at, "--reason", "asked", "--json"], ["--at"] * bool(at) + ["ID"]),
    ]
    for code, words, paths in cases:
        ended = program.run("deliveries", action, *words)
        assert (ended.returncode, ended.stdout) == (code, b"")
        said = json.loads(ended.stderr)
        assert said["message"] == "nothing was done"
        assert [fault["path"] for fault in said["faults"]] == paths
        named = [fault["message"].split()[0] for fault in said["faults"] if fault["path"] == "--key"]
        assert named == ["order-7", "order-8"][: len(named)]
    for one in (delivery, by_key):
        assert await outbox.life(one) == "pending"
        assert (await outbox.row(one))["run_at"] == LATER


async def _flow(outbox: Outbox, number: int, prefix: str) -> None:
    """More than are sent while a test waits."""
    rows = """INSERT INTO dispatcher.deliveries
                     (idempotency_key, channel, recipient, template, tenant_id, template_name)
              SELECT $2 || n, 'sms', '+4917', '{"body": "x"}', 'acme', 'welcome' FROM generate_series(1, $1::int) n"""
    await outbox.connection.execute(rows, number, prefix)


async def _aged(outbox: Outbox, pause: int, seconds: float) -> None:
    """Wait until a pause has lasted for so long."""
    aged = "SELECT now() - since > make_interval(secs => $2) FROM dispatcher.pauses WHERE id = $1"
    await until(partial(outbox.connection.fetchval, aged, pause, seconds), f"{seconds} s of the pause went by")


async def _last_sent(outbox: Outbox, pause: int) -> Any:
    """How long after a pause the last one was given to its provider, in seconds of the database."""
    late = """SELECT extract(epoch FROM max(m.captured_at) - max(p.since))::float8
                FROM dispatcher.captured_messages m, dispatcher.pauses p WHERE p.id = $1"""
    return await outbox.connection.fetchval(late, pause)


async def test_OB_21_a_pause_stops_marks_within_a_second_and_a_resume_lets_them_go(
    program: Program, outbox: Outbox
) -> None:
    """Three at a time are called, far more are at hand, and each kind of pause stops them in its turn."""
    slow = faults("sms", latency=1, latency_seconds=0.02) | {"DISPATCHER_CHANNELS__SMS__MARKED_MAX": "5"}
    await program.start(**BRISK, **slow)
    await _flow(outbox, 2_000, "flow-")
    sent = 0
    for scope, name in SCOPES.items():
        await outbox.until_count(sent + 20, "sent")
        pause = await _call(outbox, "pause_everywhere", scope, name, "ann", "wrong prices")
        await _aged(outbox, pause, 1.2)
        sent = await outbox.count("sent")
        assert await _last_sent(outbox, pause) < 1.0, scope
        assert await _call(outbox, "resume_everywhere", scope, name, "bob"), scope
    await outbox.until_count(sent + 20, "sent")
    assert once(await outbox.captured())


async def test_OB_21_a_pause_survives_a_restart_and_says_who_and_why(
    program: Program, second: Program, outbox: Outbox
) -> None:
    """Four reasons to wait: it waits until the last of them is gone."""
    await program.start(**BRISK)
    for scope, name in SCOPES.items():
        await _call(outbox, "pause_everywhere", scope, name, "ann", f"{scope}: wrong prices")
    await _flow(outbox, 20, "flow-")
    assert await program.stop() == 0
    async with outbox.connection.transaction():
        # As long as a dispatcher cannot know what is paused, it sends nothing.
        await outbox.connection.execute("LOCK TABLE dispatcher.pauses IN ACCESS EXCLUSIVE MODE")
        await second.launch(**BRISK)
        await until_blocked(outbox.connection, seconds=0.5)
        assert await outbox.count("sent") == 0
    await second.until(lambda: second.get("/readyz")[0] == 200, "it is ready")
    shown = [json.loads(line) for line in second.run("pauses", "--json").stdout.splitlines()]
    assert {(one["scope"], one["name"], one["actor"], one["reason"]) for one in shown} == {
        (scope, name, "ann", f"{scope}: wrong prices") for scope, name in SCOPES.items()
    }
    for scope, name in SCOPES.items():
        assert await outbox.count("sent") == 0
        assert await _call(outbox, "resume_everywhere", scope, name, "bob")
    await outbox.until_count(20, "sent")
    ended = await outbox.connection.fetch("SELECT ended_by FROM dispatcher.pauses")
    assert [row["ended_by"] for row in ended] == ["bob"] * 4


async def test_OB_21_a_resume_is_heard_at_once(program: Program, outbox: Outbox) -> None:
    """Polling and housekeeping are off: what waited goes when it is resumed, and not when somebody looks by himself."""
    await program.start(**PATIENT, DISPATCHER_JANITOR__INTERVAL_SECONDS="600")
    await _call(outbox, "pause_everywhere", "tenant", "acme", "ann", "wrong prices")
    await _call(outbox, "pause_everywhere", "channel", "sms", "ann", "wrong prices")
    await until_heeded(outbox.connection)
    delivery, parked = await outbox.put(), await outbox.put("email", tenant_id="acme")
    await outbox.until_life(parked, "parked")
    # After its last work a dispatcher looks a few times more, for half a second, and then sleeps.
    aged = "SELECT now() - created_at > interval '1 s' FROM dispatcher.deliveries WHERE id = $1"
    await until(partial(outbox.connection.fetchval, aged, parked), "nothing was written for a second")
    assert await _call(outbox, "resume_everywhere", "channel", "sms", "bob")
    await outbox.until_life(delivery, "sent")
    assert await _call(outbox, "resume_everywhere", "tenant", "acme", "bob")
    await outbox.until_life(parked, "sent")


async def test_OB_21_a_template_is_paused_also_where_the_contracts_view_was_written_to(
    program: Program, outbox: Outbox
) -> None:
    await _call(outbox, "pause_everywhere", "template", "welcome", "ann", "wrong logo")
    await program.start(**BRISK)
    stopped, free = await outbox.put(template_name="welcome"), await outbox.put(template_name="invoice")
    await outbox.until_life(stopped, "parked")
    await outbox.until_life(free, "sent")
    assert await _call(outbox, "resume_everywhere", "template", "welcome", "ann")
    await outbox.until_life(stopped, "sent")


async def test_OB_21_a_pause_stops_nobody_else(program: Program, outbox: Outbox) -> None:
    await program.start(**BRISK)
    for scope, name in (("channel", "voice"), ("tenant", "loud"), ("template", "promo")):
        await _call(outbox, "pause_everywhere", scope, name, "ann", "wrong prices")
    await until_heeded(outbox.connection)
    stopped = [
        await outbox.put("voice"),
        await _put(outbox, "a", tenant_id="loud"),
        await _put(outbox, "b", template_name="promo"),
    ]
    free = [await _put(outbox, "c"), await _put(outbox, "d", template_name=None), await outbox.put("email")]
    for delivery in free:
        await outbox.until_life(delivery, "sent")
    for delivery in stopped:
        await outbox.until_life(delivery, "pending", "parked")
    assert await outbox.captured(*stopped) == []
    assert await _call(outbox, "resume_everywhere", "tenant", "loud", "ann")
    await outbox.until_life(stopped[1], "sent")
    assert await outbox.captured(*stopped) == [stopped[1]]
