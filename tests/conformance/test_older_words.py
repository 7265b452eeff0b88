"""OB-13: a delivery's life in the older words, in the views rac_notification_outbox and rac_notification_logs."""

from typing import Any

from tests.conformance.outbox import Outbox, faults, hanging
from tests.support.program import Program
from tests.support.waits import until

BRIEF = {
    "DISPATCHER_JANITOR__INTERVAL_SECONDS": "0.1",
    "DISPATCHER_RETRY__BASE_SECONDS": "0.05",
    "DISPATCHER_INSTANCE__GRACE_SECONDS": "0.1",
}


async def _status(outbox: Outbox, delivery: int) -> str | None:
    """The older word; None where the view does not show it."""
    word: str | None = await outbox.connection.fetchval(
        "SELECT status FROM dispatcher.rac_notification_outbox WHERE id = $1", delivery
    )
    return word


async def _logs(outbox: Outbox, delivery: int) -> list[Any]:
    return await outbox.connection.fetch(
        "SELECT * FROM dispatcher.rac_notification_logs WHERE outbox_id = $1 ORDER BY logged_at, attempt", delivery
    )


async def _events(outbox: Outbox, delivery: int) -> list[tuple[str, int]]:
    return [(log["event"], log["attempt"]) for log in await _logs(outbox, delivery)]


async def _reopen(outbox: Outbox, delivery: int) -> None:
    answer = await outbox.connection.fetchval("SELECT dispatcher.reopen_delivery($1, 'ann', 'again')", delivery)
    assert answer == "reopened"


async def test_OB_13_pending_processing_succeeded(program: Program, outbox: Outbox) -> None:
    """Waiting and parked; claimed, at the provider and held; sent, called and posted."""
    await outbox.connection.execute("SELECT dispatcher.pause_everywhere('tenant', 'acme', 'ann', 'wrong prices')")
    waiting = await outbox.put(run_at=await outbox.connection.fetchval("SELECT now() + interval '1 day'"))
    parked = await outbox.put(tenant_id="acme")
    slots = {"DISPATCHER_CHANNELS__CHAT__MARKED_MAX": "3", "DISPATCHER_CHANNELS__PUSH__CALL_SECONDS_MAX": "0.1"}
    await program.start(**BRIEF, **hanging("chat", "push"), **slots)
    sending, claimed = await outbox.fill(2, "chat")
    held = await outbox.put("push")
    ended = [await outbox.put(channel) for channel in ("sms", "voice", "social")]
    lives = {waiting: "pending", parked: "parked", sending: "sending", claimed: "claimed", held: "held"}
    lives |= dict(zip(ended, ("sent", "called", "posted"), strict=True))
    for delivery, life in lives.items():
        await outbox.until_life(delivery, life)
    words = {life: await _status(outbox, delivery) for delivery, life in lives.items()}
    assert words == {
        "pending": "pending",
        "parked": "pending",
        "claimed": "processing",
        "sending": "processing",
        "held": "processing",
        "sent": "succeeded",
        "called": "succeeded",
        "posted": "succeeded",
    }
    assert [await _logs(outbox, delivery) for delivery in lives] == [[]] * len(lives)


async def test_OB_13_failed_is_logged_and_skipped_is_absent(program: Program, outbox: Outbox) -> None:
    await program.start(**BRIEF, **faults("sms", retry=1))
    exhausted = await outbox.put(max_attempts=3)
    unscheduled = await outbox.put("email", template='{"body": "{{ missing }}"}')
    skipped = await outbox.put("email", status="skipped", error="unsubscribed")
    for delivery in (exhausted, unscheduled):
        await outbox.until_life(delivery, "failed")
        assert await _status(outbox, delivery) == "failed"
    assert await _status(outbox, skipped) is None
    assert await _logs(outbox, skipped) == []

    first, second, last = await _logs(outbox, exhausted)
    assert (await _events(outbox, exhausted))[:2] == [("retry scheduled", 1), ("retry scheduled", 2)]
    waits = [(log["next_attempt_at"] - log["logged_at"]).total_seconds() for log in (first, second)]
    assert [round(wait, 2) for wait in waits] == [0.05, 0.1]
    assert (last["event"], last["attempt"], last["next_attempt_at"]) == ("exhausted", 3, None)
    (failure,) = await _logs(outbox, unscheduled)
    assert (failure["event"], failure["attempt"]) == ("schedule failed", 0)
    assert failure["reason"].startswith("template.body")
    row = await outbox.connection.fetchrow("SELECT * FROM dispatcher.rac_notification_outbox WHERE id = $1", exhausted)
    assert row is not None
    assert (row["kind"], row["attempts"], row["max_attempts"], row["last_error"]) == ("sms", 3, 3, last["reason"])


async def test_OB_13_what_was_logged_stays_when_an_operator_sends_it_again(program: Program, outbox: Outbox) -> None:
    await program.start(**BRIEF, **faults("sms", retry=1))
    delivery = await outbox.put(max_attempts=2)
    await outbox.until_life(delivery, "failed")
    before = await _events(outbox, delivery)
    assert before == [("retry scheduled", 1), ("exhausted", 2)]
    await _reopen(outbox, delivery)

    async def exhausted_again() -> bool:
        return int((await outbox.row(delivery))["attempts"]) == 4 and await outbox.life(delivery) == "failed"

    await until(exhausted_again, "it failed once more")
    assert await _events(outbox, delivery) == [*before, ("retry scheduled", 3), ("exhausted", 4)]


async def test_OB_13_what_could_not_be_scheduled_is_logged_as_that(program: Program, outbox: Outbox) -> None:
    """Its channel has nobody who serves it, what it says is faulty, or its time is over before the retry has come."""
    busy = faults("sms", retry=1) | {"DISPATCHER_RETRY__BASE_SECONDS": "600"}
    await program.start(**(BRIEF | busy))
    unserved, faulty = await outbox.put("fax"), await outbox.put("email", template='{"body": "{{ missing }}"}')
    expired = await outbox.put(expires_at=await outbox.connection.fetchval("SELECT now() + interval '2 seconds'"))
    lives = {unserved: "failed", faulty: "failed", expired: "skipped"}
    for delivery, life in lives.items():
        await outbox.until_life(delivery, life)
    found = {delivery: (await _logs(outbox, delivery))[-1] for delivery in lives}
    assert {log["event"] for log in found.values()} == {"schedule failed"}
    assert [log["next_attempt_at"] for log in found.values()] == [None] * 3
    assert [log["reason"].split(":")[0] for log in found.values()] == ["channel", "template.body", "expired"]
    assert await _events(outbox, expired) == [("retry scheduled", 1), ("schedule failed", 1)]


async def test_OB_13_what_was_never_called_and_is_reopened_keeps_its_log(program: Program, outbox: Outbox) -> None:
    await program.start(**BRIEF)
    delivery = await outbox.put(template='{"body": "{{ missing }}"}')
    await outbox.until_life(delivery, "failed")
    (before,) = await _logs(outbox, delivery)
    await _reopen(outbox, delivery)

    async def failed_again() -> list[Any] | None:
        logs = await _logs(outbox, delivery)
        return logs if len(logs) == 2 else None

    first, second = await until(failed_again, "it failed once more")
    assert first == before
    assert (second["event"], second["attempt"]) == ("schedule failed", 0)
    assert second["logged_at"] > first["logged_at"]


async def test_OB_13_a_refusal_and_an_operators_word_are_failures(program: Program, outbox: Outbox) -> None:
    brief = {"DISPATCHER_CHANNELS__PUSH__CALL_SECONDS_MAX": "0.1"}
    await program.start(**BRIEF, **brief, **faults("sms", refuse=1), **hanging("push"))
    refused, unknown = await outbox.put(), await outbox.put("push")
    await outbox.until_life(refused, "failed")
    await outbox.until_life(unknown, "held")
    settled = await outbox.connection.fetchval("SELECT dispatcher.settle_held($1, 'failed', 'ann', 'lost')", unknown)
    assert settled == "settled"
    for delivery in (refused, unknown):
        assert await _events(outbox, delivery) == [("failed", 1)]
