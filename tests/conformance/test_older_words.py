"""OB-13: a delivery's life in the older words, in the views rac_notification_outbox and rac_notification_logs."""

from typing import Any

import pytest

from tests.conformance.outbox import Outbox, faults, hanging
from tests.program import Program
from tests.store.waits import until

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


async def test_OB_13_pending_processing_succeeded(program: Program, outbox: Outbox) -> None:
    """Waiting and parked; claimed, at the provider and held; sent, called and posted."""
    await outbox.connection.execute("SELECT dispatcher.pause_v1('tenant', 'acme', 'ann', 'wrong prices')")
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
    assert [(log["event"], log["attempt"]) for log in (first, second)] == [
        ("retry scheduled", 1),
        ("retry scheduled", 2),
    ]
    waits = [(log["next_attempt_at"] - log["logged_at"]).total_seconds() for log in (first, second)]
    assert [round(wait, 2) for wait in waits] == [0.05, 0.1]
    assert (last["event"], last["attempt"], last["next_attempt_at"]) == ("exhausted", 3, None)
    (failure,) = await _logs(outbox, unscheduled)
    assert (failure["event"], failure["attempt"]) == ("failed", 0)
    assert failure["reason"].startswith("template.body")
    row = await outbox.connection.fetchrow("SELECT * FROM dispatcher.rac_notification_outbox WHERE id = $1", exhausted)
    assert row is not None
    assert (row["kind"], row["attempts"], row["max_attempts"], row["last_error"]) == ("sms", 3, 3, last["reason"])


@pytest.mark.xfail(strict=False, reason="not yet: reopening turns the logged exhaustion into a scheduled retry")
async def test_OB_13_what_was_logged_stays_when_an_operator_sends_it_again(program: Program, outbox: Outbox) -> None:
    await program.start(**BRIEF, **faults("sms", retry=1))
    delivery = await outbox.put(max_attempts=2)
    await outbox.until_life(delivery, "failed")
    before = [(log["event"], log["attempt"]) for log in await _logs(outbox, delivery)]
    assert before == [("retry scheduled", 1), ("exhausted", 2)]
    await outbox.connection.execute("SELECT dispatcher.reopen_delivery_v1($1, 'ann', 'it works now')", delivery)

    async def exhausted_again() -> bool:
        return int((await outbox.row(delivery))["attempts"]) == 4 and await outbox.life(delivery) == "failed"

    await until(exhausted_again, "it failed once more")
    after = [(log["event"], log["attempt"]) for log in await _logs(outbox, delivery)]
    assert after == [*before, ("retry scheduled", 3), ("exhausted", 4)]
