"""EM-04: mail by Resend's API: keys, batches, and limits that are obeyed."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.channels.resend.fake import (
    KEY,
    FakeResend,
    Hanging,
    says,
    taken_and_dropped,
    taken_and_says,
)
from tests.conformance.outbox import QUICK, Outbox
from tests.support.program import Program
from tests.support.waits import until

TEMPLATE = json.dumps({"subject": "Order {{ id }}", "text": "Hello.", "html": "<p>Hello.</p>"})
BRISK = QUICK | {"DISPATCHER_RETRY__BASE_SECONDS": "0.05"}


@pytest.fixture
async def fake() -> AsyncIterator[FakeResend]:
    """The API."""
    async with FakeResend() as fake:
        yield fake


def at(fake: FakeResend, **options: str) -> dict[str, str]:
    """The e-mail channel speaks with this one."""
    given = {"API_KEY": KEY, "FROM": "Shop <shop@example.net>", "URL": fake.url} | options
    prefix = "DISPATCHER_CHANNELS__EMAIL__"
    return BRISK | {f"{prefix}PROVIDER": "resend"} | {f"{prefix}OPTIONS__{name}": text for name, text in given.items()}


async def put(outbox: Outbox, **columns: Any) -> int:
    """One mail."""
    return await outbox.put("email", **({"template": TEMPLATE, "variables": '{"id": 17}'} | columns))


async def fill(outbox: Outbox, number: int) -> list[int]:
    """Many mails, due at the same moment."""
    rows = await outbox.connection.fetch(
        """INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template, variables)
           SELECT 'mail-' || n, 'email', 'ann' || n || '@example.org', $2::jsonb, '{"id": 17}'
             FROM generate_series(1, $1::int) AS n RETURNING id""",
        number,
        TEMPLATE,
    )
    return [row["id"] for row in rows]


async def test_EM_04_a_mail_is_sent_and_known_by_the_provider_s_id(
    program: Program, outbox: Outbox, fake: FakeResend
) -> None:
    await program.start(**at(fake))
    delivery = await put(outbox, recipient="Zoë <zoe@bücher.example>")
    await outbox.until_life(delivery, "sent")
    (mail,) = fake.sent
    row = await outbox.row(delivery)
    assert (row["provider_message_id"], row["attempts"]) == (mail.id, 1)
    assert mail.delivery == delivery
    assert mail.message["to"] == ["Zoë <zoe@xn--bcher-kva.example>"]
    assert (mail.message["subject"], mail.message["html"]) == ("Order 17", "<p>Hello.</p>")


async def test_EM_04_lost_answers_are_asked_for_under_the_same_key_and_nothing_is_sent_twice(
    program: Program, outbox: Outbox, fake: FakeResend
) -> None:
    fake.faults += [taken_and_dropped, taken_and_says(500, ("application_error", "Unexpected.")), taken_and_dropped] * 3
    await program.start(**at(fake))
    ids = await fill(outbox, 10)
    await outbox.until_count(10, "sent")
    assert fake.times() == dict.fromkeys(ids, 1)
    bodies: dict[str, set[bytes]] = {}
    for request in fake.requests:
        bodies.setdefault(request.key, set()).add(request.body)
    assert len(bodies) == 10
    assert {len(same) for same in bodies.values()} == {1}
    resent = [row["resent_by"] for one in ids for row in await outbox.attempts(one)]
    assert resent
    assert set(resent) == {"key"}


async def test_EM_04_a_crash_during_the_call_sends_once(
    program: Program, second: Program, outbox: Outbox, fake: FakeResend
) -> None:
    hanging = fake.every = Hanging()
    await program.start(**at(fake))
    ids = await fill(outbox, 3)
    await hanging.begun.wait()
    await program.kill()
    fake.every = None
    hanging.let_go.set()
    await second.start(**at(fake))
    await outbox.until_count(3, "sent")
    assert fake.times() == dict.fromkeys(ids, 1)


async def test_EM_04_concurrent_requests_are_tried_again_and_a_foreign_key_is_held(
    program: Program, outbox: Outbox, fake: FakeResend
) -> None:
    fake.faults.append(says(409, ("concurrent_idempotent_requests", "It is in progress.")))
    await program.start(**at(fake))
    again = await put(outbox)
    await outbox.until_life(again, "sent")
    fake.faults.append(says(409, ("invalid_idempotent_request", "Another payload.")))
    held = await put(outbox)
    await outbox.until_life(held, "held")
    assert (await outbox.row(held))["error"] == "unknown: 409 invalid_idempotent_request"
    assert fake.times() == {again: 1}


async def test_EM_04_a_refusal_is_final_and_repeats_nothing_of_the_mail(
    program: Program, outbox: Outbox, fake: FakeResend
) -> None:
    fake.faults.append(says(422, ("validation_error", "Invalid `to` field: ann@example.org (Order 17).")))
    await program.start(**at(fake))
    delivery = await put(outbox)
    await outbox.until_life(delivery, "failed")
    row = await outbox.row(delivery)
    assert (row["error"], row["attempts"]) == ("resend says validation_error: Invalid `to` field: …).", 1)
    faulty = await put(outbox, recipient="ann")
    await outbox.until_life(faulty, "failed")
    assert (await outbox.row(faulty))["error"].startswith("recipient: ")
    assert len(fake.requests) == 1


async def test_EM_04_batches_go_out_by_the_hundred_and_each_mail_once(
    program: Program, outbox: Outbox, fake: FakeResend
) -> None:
    ids = await fill(outbox, 250)
    fake.faults.append(taken_and_dropped)
    await program.start(**at(fake, BATCH="true"))
    await outbox.until_count(250, "sent")
    assert fake.times() == dict.fromkeys(ids, 1)
    assert len(fake.requests) < 25
    assert max(len(request.messages) for request in fake.requests) == 100
    known = {mail.delivery: mail.id for mail in fake.sent}
    assert {one: (await outbox.row(one))["provider_message_id"] for one in ids[:5]} == {
        one: known[one] for one in ids[:5]
    }


async def test_EM_04_a_batch_that_nobody_can_repeat_is_held(
    program: Program, second: Program, outbox: Outbox, fake: FakeResend
) -> None:
    """A crash in the middle of its call: each of its mails was sent, and none is sent again."""
    ids = await fill(outbox, 20)
    hanging = fake.every = Hanging()
    await program.start(**at(fake, BATCH="true"))
    await hanging.begun.wait()
    await until(lambda: len(fake.times()) == 20, "all are with the provider")
    await program.kill()
    fake.every = None
    hanging.let_go.set()
    await second.start(**at(fake, BATCH="true"))
    await outbox.until_count(20, "held")
    other = await put(outbox)
    await outbox.until_life(other, "sent")
    assert fake.times() == dict.fromkeys([*ids, other], 1)


async def test_EM_04_limits_are_kept_before_they_are_enforced(program: Program, outbox: Outbox) -> None:
    async with FakeResend(limit=5, window_seconds=0.5) as limited:
        await program.start(**at(limited))
        ids = await fill(outbox, 30)
        await outbox.until_count(30, "sent")
        assert limited.times() == dict.fromkeys(ids, 1)
        assert set(limited.statuses) == {200}


async def test_EM_04_a_spent_quota_is_parked_and_not_hammered(
    program: Program, outbox: Outbox, fake: FakeResend
) -> None:
    fake.every = says(429, ("daily_quota_exceeded", "You have reached your daily email sending quota."))
    await program.start(**at(fake))
    ids = await fill(outbox, 50)
    await program.until(lambda: program.events("resend.quota_spent"), "it says so")

    async def parked() -> bool:
        waiting = """SELECT count(*) FROM dispatcher.delivery_state WHERE id = ANY ($1) AND ready AND attempt = 0
                        AND run_at > now() + interval '30 minutes'"""
        return bool(await outbox.connection.fetchval(waiting, ids))

    await until(parked, "what was put off is due much later")
    for _ in range(3):
        await outbox.until_life(await outbox.put("sms"), "sent")
    (line,) = program.events("resend.quota_spent")
    assert (line["level"], line["quota"], line["wait_seconds"]) == ("warning", "daily", 3600.0)
    assert len(fake.requests) == 1


async def test_EM_04_the_key_is_shown_nowhere(program: Program, outbox: Outbox, fake: FakeResend) -> None:
    fake.faults.append(says(403, ("invalid_api_key", f"API key {KEY} is invalid")))
    await program.start(**at(fake), DISPATCHER_LOG__LEVEL="debug")
    delivery = await put(outbox)
    await outbox.until_life(delivery, "failed")
    assert "options.api_key" in (await outbox.row(delivery))["error"]
    program.environment |= at(fake)
    shown = program.run("config", "show").stdout.decode()
    told = shown + program.log_path.read_text() + repr(await outbox.row(delivery))
    assert "resend" in shown
    assert KEY not in told
