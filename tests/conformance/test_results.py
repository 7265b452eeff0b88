"""OB-09 to OB-12: late results change nothing and are kept, attempts wait and end, faults name a field."""

import signal
from typing import Any

import asyncpg
import pytest

from tests.conformance.outbox import QUICK, Outbox, faults, hanging, once
from tests.support.program import Program
from tests.support.waits import until, until_blocked

SLOW = faults("sms", latency=1, latency_seconds=1.5)


async def _frozen_in_a_call(program: Program, outbox: Outbox, **environment: str) -> int:
    """A program that was stopped in the middle of a call, and the delivery that it was sending."""
    await program.start(**QUICK, **environment)
    delivery = await outbox.put()
    await outbox.until_life(delivery, "sending")
    program.signal(signal.SIGSTOP)
    return delivery


async def test_OB_09_a_fenced_flush_changes_nothing_and_is_counted(
    program: Program, second: Program, outbox: Outbox
) -> None:
    """Frozen in the call, taken for dead, sent again by another as that was allowed, and then it wakes up."""
    allowed = {"DISPATCHER_CHANNELS__SMS__AT_LEAST_ONCE": "true"}
    delivery = await _frozen_in_a_call(
        program, outbox, **allowed, **faults("sms", refuse=1, latency=1, latency_seconds=1)
    )
    await second.start(**QUICK, **allowed)
    await outbox.until_life(delivery, "sent")
    ended = dict(await outbox.row(delivery))
    program.signal(signal.SIGCONT)
    await program.until(lambda: program.events("flush.fenced"), "its flush was fenced")
    await program.until(lambda: program.metric("dispatcher_fenced_writes_total", channel="sms") >= 1, "it was counted")
    assert dict(await outbox.row(delivery)) == ended


async def test_OB_09_what_a_late_result_knows_is_kept_and_resolves_what_is_held(
    program: Program, second: Program, outbox: Outbox, url: str
) -> None:
    """It had been sent, and the answer came after others had taken over: the held delivery is sent, by its word."""
    # Held by the provider's side of the call: capture has it, and the answer waits behind the freeze.
    blocker = "LOCK TABLE dispatcher.captured_messages IN ACCESS EXCLUSIVE MODE"
    transaction = outbox.connection.transaction()
    await transaction.start()
    await outbox.connection.execute(blocker)
    await program.start(**QUICK)
    application = await asyncpg.connect(url)
    try:
        other = Outbox(application)
        delivery = await other.put()
        await other.until_life(delivery, "sending")
        # Before that it has not been called yet, and goes back.
        await until_blocked(application)
        program.signal(signal.SIGSTOP)
        await transaction.rollback()
        await second.start(**QUICK)
        await other.until_life(delivery, "held")
        program.signal(signal.SIGCONT)
        await other.until_life(delivery, "sent")
        assert await other.captured() == [delivery]
        (kept,) = await application.fetch("SELECT * FROM dispatcher.delivery_evidence")
    finally:
        await application.close()
    assert (kept["delivery_id"], kept["verdict"], kept["resolved"]) == (delivery, "accepted", True)


async def test_OB_09_results_are_flushed_in_batches(program: Program, outbox: Outbox) -> None:
    await outbox.fill(2_000)
    await program.start()
    await outbox.until_count(2_000, "sent")
    assert program.metric("dispatcher_flush_deliveries_count") <= 100


def _seconds(attempts: list[Any]) -> list[float]:
    return [(one["next_at"] - one["ended_at"]).total_seconds() for one in attempts]


async def test_OB_10_waits_double_up_to_the_cap_and_the_last_attempt_ends_as_exhausted(
    program: Program, outbox: Outbox
) -> None:
    """The defaults are 60 s and 3,600 s; here a minute is 10 ms, and an hour what an hour is to that."""
    await program.start(
        **faults("sms", retry=1), DISPATCHER_RETRY__BASE_SECONDS="0.01", DISPATCHER_RETRY__CAP_SECONDS="0.6"
    )
    delivery = await outbox.put(max_attempts=10)
    await outbox.until_life(delivery, "failed")
    waits = [round(seconds / 0.01) for seconds in _seconds(await outbox.attempts(delivery))]
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    row = await outbox.row(delivery)
    assert row["attempts"] == 10
    assert row["error"].startswith("exhausted")


async def test_OB_10_five_attempts_with_a_minute_after_the_first_is_the_default(
    program: Program, outbox: Outbox
) -> None:
    await program.start(**faults("sms", retry=1))
    delivery = await outbox.put()

    async def tried() -> list[Any]:
        return await outbox.attempts(delivery)

    attempts = await until(tried, "the first attempt is over")
    assert _seconds(attempts) == [60.0]
    row = await outbox.row(delivery)
    assert (row["status"], row["max_attempts"], row["run_at"]) == ("queued", 5, attempts[0]["next_at"])


async def test_OB_10_what_is_tried_again_is_sent_once(program: Program, outbox: Outbox) -> None:
    ids = await outbox.fill(100)
    await program.start(**faults("sms", seed=5, retry=0.4), DISPATCHER_RETRY__BASE_SECONDS="0.02")
    await outbox.until_count(90, "sent")
    captured = await outbox.captured()
    assert once(captured)
    assert set(captured) <= set(ids)
    assert await outbox.connection.fetchval("SELECT count(*) FROM dispatcher.delivery_attempts") >= 20


FAULTY = {
    "template.body": {"template": '{"body": "{{ missing }}"}'},
    "template.html": {"template": '{"html": "{% if %}"}'},
    "template": {"template": '{"body": 5}'},
    "variables": {"variables": '{"a": 1e5000}', "template": '{"body": "{{ a }}"}'},
    "recipient": {},
}


@pytest.mark.parametrize("field", FAULTY)
async def test_OB_11_what_can_never_be_sent_fails_at_once_and_names_the_field(
    program: Program, outbox: Outbox, field: str
) -> None:
    await program.start(**(faults("sms", refuse=1) if field == "recipient" else {}))
    delivery = await outbox.put(**FAULTY[field])
    await outbox.until_life(delivery, "failed")
    row = await outbox.row(delivery)
    assert row["error"].startswith(field)
    assert await outbox.attempts(delivery) == []
    assert await outbox.captured() == []


async def test_OB_11_an_unsupported_channel_fails_and_names_the_field(program: Program, outbox: Outbox) -> None:
    delivery = await outbox.put("pigeon")
    await program.start(DISPATCHER_JANITOR__INTERVAL_SECONDS="0.2")
    await outbox.until_life(delivery, "failed")
    assert "channel" in (await outbox.row(delivery))["error"]


POISON = {
    "options_too_deep": {"options": '{"a": ' + "[" * 3_000 + "]" * 3_000 + "}"},
    "options_with_a_number_too_large": {"options": '{"a": 1e5000}'},
    "base64_that_is_no_text": {"template": '{"body": "{{ \'gICA\' | base64_decode }}"}'},
    "infinity": {"template": '{"body": "{{ \'inf\' | ceil }}"}'},
    "a_nul": {"template": '{"body": "{{ \'AA==\' | base64_decode }}"}'},
}


@pytest.mark.parametrize("what", POISON)
async def test_OB_11_one_bad_delivery_harms_no_other(program: Program, outbox: Outbox, what: str) -> None:
    bad = await outbox.put(**POISON[what])
    good = await outbox.fill(20)
    await program.start()
    await outbox.until_life(bad, "failed", "sent")
    await outbox.until_count(20, "sent")
    assert set(good) <= set(await outbox.captured())
    assert program.metric("dispatcher_restarts_total") == 0


async def test_OB_11_no_reason_and_no_log_repeats_content(program: Program, outbox: Outbox) -> None:
    secret = "Content-9c41"
    await program.start(DISPATCHER_LOG__LEVEL="debug", **faults("push", seed=2, refuse=0.3, retry=0.3, unknown=0.3))
    variables = f'{{"a": "{secret}"}}'
    for _ in range(20):
        await outbox.put("push", recipient=f"Recipient-{secret}", variables=variables, template='{"body": "{{ a }}"}')
    await outbox.put(variables=variables, template='{"body": "{{ a | plus: b }}"}')
    await outbox.put(variables=f'{{"a": "{secret}", "o": {{}}}}', template='{"body": "{{ o | compact: a }}"}')
    await outbox.put(variables=variables, template='{"body": "{% for i in (1..a) %}{% endfor %}"}')

    async def settled() -> bool:
        return await outbox.nothing_in_flight() and await outbox.count("pending") < 12

    await until(settled, "each was tried")
    assert secret not in program.log_path.read_text()
    errors = await outbox.connection.fetch("SELECT error FROM dispatcher.delivery_state WHERE error IS NOT NULL")
    assert not [row["error"] for row in errors if secret in row["error"]]


async def test_OB_12_a_killed_dispatcher_loses_nothing_and_sends_nothing_twice(
    program: Program, second: Program, outbox: Outbox
) -> None:
    await program.start(**QUICK, **hanging("email"), DISPATCHER_CHANNELS__EMAIL__MARKED_MAX="3")
    await outbox.fill(10, "email")
    await outbox.until_count(1, "sending", "email")
    sms = await outbox.fill(3_000, "sms")
    await outbox.until_count(1, "sent", "sms")
    await program.kill()
    await second.start(**QUICK)
    await until(outbox.nothing_in_flight, "everything was recovered")
    await outbox.until_count(3_000 - await outbox.count("held", "sms"), "sent", "sms")
    assert await outbox.count("held", "email") >= 1
    assert once(await outbox.captured())
    assert set(await outbox.captured(*sms)) >= {one for one in sms if await outbox.life(one) == "sent"}
