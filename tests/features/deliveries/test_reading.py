"""Why a delivery waits: what `waits_for` says of each situation, and that it says nothing of what does not wait."""

import pytest

from tests.support.scene import Connection

SERVES = """
    INSERT INTO dispatcher.instances (epoch, lease_seconds, pid, name, version, channels, providers, yielded, unready)
    VALUES (1, 10, 1, 'one', '1', '{sms,email}', '{twilio:17,main+spare:4}', $1, $2)"""
DELIVERY = """
    INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template, template_name, scheduled_for)
    VALUES ('one', $1, '1', '{"body": "x"}', 'welcome', now() + make_interval(hours => $2)) RETURNING id"""
PAUSE = "SELECT dispatcher.pause($1, $2, $3, $3, 'ann', $4)"
STATE = "UPDATE dispatcher.delivery_state SET {}"
LATER = "run_at = now() + interval '1 hour'"
PARKED = "ready = false"
MOVED = """INSERT INTO dispatcher.moved_deliveries (delivery_id, version, due_at, run_at, reason)
           SELECT id, 1, now(), run_at, 'quiet hours until 08:00' FROM dispatcher.delivery_state"""


async def _serve(connection: Connection, yielded: list[str] | None = None, unready: list[str] | None = None) -> None:
    await connection.execute(SERVES, yielded or [], unready or [])


async def _put(connection: Connection, channel: str = "sms", hours: int = 0) -> int:
    return int(await connection.fetchval(DELIVERY, channel, hours))


async def _waits(connection: Connection, number: int) -> str | None:
    words: str | None = await connection.fetchval("SELECT dispatcher.waits_for($1)", number)
    return words


@pytest.mark.parametrize(
    ("scope", "name", "place", "words"),
    [
        ("channel", "sms", None, "channel sms is paused by ann: too many"),
        ("channel", "sms", "default", "channel sms is paused by ann: too many"),
        ("workspace", "default", "default", "workspace default is paused by ann: too many"),
        ("tenant", "default", None, "tenant default is paused by ann: too many"),
        ("provider", "twilio", None, "the provider of channel sms is paused"),
        ("channel", "sms", "acme", None),
        ("channel", "email", None, None),
        ("template", "welcome", "default", "template welcome is paused by ann: too many"),
        ("template", "goodbye", None, None),
    ],
)
async def test_a_due_delivery_waits_for_the_pauses_that_stop_it(
    connection: Connection, scope: str, name: str, place: str | None, words: str | None
) -> None:
    await _serve(connection)
    number = await _put(connection)
    await connection.execute(PAUSE, scope, name, place, "too many")
    assert await _waits(connection, number) == words


@pytest.mark.parametrize(
    ("channel", "yielded", "unready", "words"),
    [
        ("sms", [], ["email"], None),
        ("push", [], [], "channel push is served by no dispatcher"),
        ("sms", ["sms"], [], "channel sms has different providers in different dispatchers"),
        ("sms", [], ["sms"], "channel sms has no connection to its provider"),
        # Another provider of the channel may have one.
        ("email", [], ["email"], None),
    ],
)
async def test_a_due_delivery_waits_for_the_dispatchers_of_its_channel(
    connection: Connection, channel: str, yielded: list[str], unready: list[str], words: str | None
) -> None:
    number = await _put(connection, channel)
    assert await _waits(connection, number) == "no dispatcher is running"
    await _serve(connection, yielded, unready)
    assert await _waits(connection, number) == words
    await connection.execute("UPDATE dispatcher.instances SET beat_at = now() - interval '11 seconds'")
    assert await _waits(connection, number) == "no dispatcher is running"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (f"{LATER}, attempt = 2, error = '451 try again'", "attempt 2 failed: 451 try again"),
        # Since an operator reopened it there was no attempt.
        (f"{LATER}, attempt = 2, attempt_base = 2, error = '451 try again'", None),
        (f"{LATER}, throttled_since = now()", "its provider asked to wait"),
        (LATER, None),
        ("run_at = now() + interval '4 seconds'", "channel sms is paused by ann"),
        (PARKED, "channel sms is paused by ann"),
        (f"{PARKED}, {LATER}", "channel sms is paused by ann"),
        ("ready = false, token = 1", None),
        ("ready = false, token = 1, held = true, marked = true", None),
        ("ready = false, status = 'failed', finished_at = now()", None),
    ],
)
async def test_what_waits_for_its_time_says_what_for(connection: Connection, changes: str, words: str | None) -> None:
    await _serve(connection)
    number = await _put(connection)
    await connection.execute(PAUSE, "channel", "sms", None, "")
    await connection.execute(STATE.format(changes))
    assert await _waits(connection, number) == words


async def test_what_is_due_later_waits_for_nothing_but_quiet_hours(connection: Connection) -> None:
    number = await _put(connection, hours=1)
    assert await _waits(connection, number) is None
    await connection.execute(MOVED)
    assert await _waits(connection, number) == "quiet hours until 08:00"


async def test_what_is_parked_when_its_pause_has_ended_goes_on(connection: Connection) -> None:
    await _serve(connection)
    number = await _put(connection)
    await connection.execute(STATE.format(PARKED))
    assert await _waits(connection, number) == "its pause has ended: it goes on in a moment"
