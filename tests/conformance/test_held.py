"""OB-12 and OB-22: a crash around the provider's call, and deliveries of which nobody knows how they ended."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dispatcher.selftest.ledger import Entry
from tests.conformance.outbox import QUICK, Outbox, hanging
from tests.faults.provider import Provider
from tests.support.program import Program
from tests.support.waits import until

# Housekeeping and retries come round while a test waits, and a call of a dead owner is over soon.
BRISK = QUICK | {
    "DISPATCHER_JANITOR__INTERVAL_SECONDS": "0.1",
    "DISPATCHER_RETRY__BASE_SECONDS": "0.05",
    "DISPATCHER_CHANNELS__SMS__CALL_SECONDS_MAX": "1",
}
# Longer than any test: the ledger has the message in its books, and its answer never comes.
NO_ANSWER = ("--seed", "3", "--delay-ms-max", "600000")


def _at(channel: str, provider: Provider, **settings: str) -> dict[str, str]:
    """This channel speaks with this ledger."""
    prefix = f"DISPATCHER_CHANNELS__{channel.upper()}__"
    place = {"PROVIDER": "ledger", "OPTIONS__PORT": str(provider.port)}
    return {prefix + name: text for name, text in (place | settings).items()}


async def _entry(outbox: Outbox, delivery: int, *providers: Provider) -> Entry:
    """What the books say about a delivery; nothing where they do not know it."""
    key = (await outbox.row(delivery))["idempotency_key"]
    return next((books[key] for books in (provider.entries() for provider in providers) if key in books), Entry())


async def _settle(outbox: Outbox, delivery: int, settle_as: str, actor: str = "ann") -> str:
    settle = "SELECT dispatcher.settle_held($1, $2, $3, 'looked it up')"
    return str(await outbox.connection.fetchval(settle, delivery, settle_as, actor))


async def _others_go_by(outbox: Outbox) -> None:
    """Rounds of claiming, sending and housekeeping go by."""
    for _ in range(3):
        await outbox.until_life(await outbox.put("email"), "sent")


async def _actions(outbox: Outbox, delivery: int) -> list[tuple[str, ...]]:
    rows = await outbox.connection.fetch(
        "SELECT actor, action, status_before, reason FROM dispatcher.operator_actions WHERE delivery_id = $1", delivery
    )
    return [tuple(row) for row in rows]


@pytest.mark.parametrize("point", ["claim.taken", "mark.asked"])
async def test_OB_12_a_crash_before_the_call_loses_nothing_and_spends_no_attempt(
    program: Program, second: Program, outbox: Outbox, tmp_path: Path, point: str
) -> None:
    async with Provider(tmp_path / "books") as provider:
        await program.start(**BRISK, **_at("sms", provider), FAULT=f"{point}:1:kill9")
        ids = await outbox.fill(5)
        await program.ended()
        assert await outbox.count("claimed") == 5
        assert provider.entries() == {}
        await second.start(**BRISK, **_at("sms", provider))
        await outbox.until_count(5, "sent")
        assert [(await outbox.row(one))["attempts"] for one in ids] == [1] * 5
        assert [(await _entry(outbox, one, provider)).accepted for one in ids] == [1] * 5


async def test_OB_12_a_crash_during_the_call_ends_as_its_channel_says(
    program: Program, second: Program, outbox: Outbox, tmp_path: Path
) -> None:
    """Three promises: nothing is known (held), the provider knows the key (once), the channel may send twice."""
    keyed, keyless = Provider(tmp_path / "keyed", "--dedupe", *NO_ANSWER), Provider(tmp_path / "keyless", *NO_ANSWER)
    async with keyed, keyless:
        channels = (
            _at("sms", keyless)
            | _at("chat", keyless, AT_LEAST_ONCE="true")
            | _at("email", keyed, OPTIONS__KEYED="true")
        )
        await program.start(**BRISK, **channels)
        held, twice, once = [await outbox.put(channel) for channel in ("sms", "chat", "email")]
        await until(lambda: len(keyed.entries()) + len(keyless.entries()) == 3, "the providers have all three")
        await program.kill()
    again = Provider(tmp_path / "keyed", "--dedupe", "--port", str(keyed.port))
    async with again, Provider(tmp_path / "keyless", "--port", str(keyless.port)) as keyless:
        await second.start(**BRISK, **channels)
        await outbox.until_life(once, "sent")
        await outbox.until_life(twice, "sent")
        await outbox.until_life(held, "held")
        entries = [await _entry(outbox, one, keyless, again) for one in (held, twice, once)]
    assert [(entry.accepted, entry.again) for entry in entries] == [(1, 0), (2, 0), (1, 1)]
    assert [(one["outcome"], one["resent_by"]) for one in await outbox.attempts(once)] == [("unknown", "key")]
    assert [(one["outcome"], one["resent_by"]) for one in await outbox.attempts(twice)] == [
        ("unknown", "at_least_once")
    ]


async def test_OB_12_without_an_answer_a_key_is_used_until_there_is_one(
    program: Program, outbox: Outbox, tmp_path: Path
) -> None:
    """Half of the connections are closed in place of an answer: the keyed are accepted once, the keyless are held."""
    faults = ("--seed", "4", "--drop", "0.5")
    keyed, keyless = Provider(tmp_path / "keyed", "--dedupe", *faults), Provider(tmp_path / "keyless", *faults)
    async with keyed, keyless:
        await program.start(**BRISK, **_at("email", keyed, OPTIONS__KEYED="true"), **_at("sms", keyless))
        ids = [await outbox.put("email", max_attempts=30) for _ in range(12)]
        unsure = [await outbox.put("sms") for _ in range(12)]
        await outbox.until_count(12, "sent", "email")
        for delivery in unsure:
            await outbox.until_life(delivery, "sent", "held")
        entries = [await _entry(outbox, one, keyed) for one in ids]
        assert {entry.accepted for entry in entries} == {1}
        assert sum(entry.again for entry in entries) >= 1
        assert await outbox.count("held", "sms") >= 1
        assert {(await _entry(outbox, one, keyless)).accepted for one in unsure} <= {0, 1}


async def test_OB_12_an_operator_settles_what_is_held_and_nothing_else_does(
    program: Program, second: Program, outbox: Outbox, tmp_path: Path
) -> None:
    async with Provider(tmp_path / "books") as provider:
        await program.start(**BRISK, **_at("sms", provider), FAULT="call.ended:1:kill9")
        sent, failed, requeued, _ = ids = await outbox.fill(4)
        await program.ended()
        await second.start(**BRISK, **_at("sms", provider))
        await outbox.until_count(4, "held")
        assert [await _settle(outbox, one, "requeue") for one in ids] == ["early"] * 4
        await _others_go_by(outbox)
        assert {(await _entry(outbox, one, provider)).accepted for one in ids} == {1}

        await _until_settled(outbox, sent, "sent")
        assert await _settle(outbox, failed, "failed") == await _settle(outbox, requeued, "requeue") == "settled"
        await outbox.until_life(requeued, "sent")
        await _others_go_by(outbox)
        assert [await outbox.life(one) for one in ids] == ["sent", "failed", "sent", "held"]
        assert [(await _entry(outbox, one, provider)).accepted for one in ids] == [1, 1, 2, 1]
        assert [len(await _actions(outbox, one)) for one in ids] == [1, 1, 1, 0]
        assert await _actions(outbox, requeued) == [("ann", "settle_requeue", "held", "looked it up")]


async def _until_settled(outbox: Outbox, delivery: int, settle_as: str) -> None:
    async def settled() -> bool:
        return await _settle(outbox, delivery, settle_as) == "settled"

    await until(settled, "the call of the dead owner cannot be going on any more")


async def _held_by_time_out(program: Program, outbox: Outbox, number: int, **environment: str) -> list[int]:
    """Deliveries that are held because their provider does not answer."""
    brief = {f"DISPATCHER_CHANNELS__{name}__CALL_SECONDS_MAX": "0.1" for name in ("SMS", "EMAIL")}
    await program.start(**(BRISK | brief | hanging("sms", "email") | environment))
    ids = await outbox.fill(number, "sms")
    await outbox.until_count(number, "held", "sms")
    return ids


async def test_OB_12_two_operators_settle_one_delivery_once(program: Program, outbox: Outbox) -> None:
    """From two terminals at the same time, and once more a moment later."""
    (delivery,) = await _held_by_time_out(program, outbox, 1)

    async def resolve(settle_as: str, actor: str) -> tuple[int, str]:
        words = ("held", "resolve", str(delivery), settle_as, "--reason", "asked", "--actor", actor)
        ended = await asyncio.to_thread(program.run, *words)
        return ended.returncode, ended.stdout.decode()

    answers = list(await asyncio.gather(resolve("--sent", "ann"), resolve("--failed", "bob")))
    answers.append(await resolve("--failed", "cyd"))
    assert sorted(code for code, _ in answers[:2]) == [0, 1]
    assert answers[2][0] == 1
    ((actor, *_),) = await _actions(outbox, delivery)
    assert [actor in words for code, words in answers if code] == [True, True]
    assert await outbox.life(delivery) == {"ann": "sent", "bob": "failed"}[actor]


async def test_OB_12_what_lost_its_key_can_be_requeued_by_an_operator(
    program: Program, outbox: Outbox, tmp_path: Path
) -> None:
    """An unknown attempt whose key the provider has forgotten is held, and an operator may send it again."""
    silent = Provider(tmp_path / "books", "--dedupe", *NO_ANSWER)
    async with silent:
        settings = BRISK | _at("sms", silent, OPTIONS__KEYED="true", CALL_SECONDS_MAX="0.2")
        await program.start(**(settings | {"DISPATCHER_RETRY__BASE_SECONDS": "1"}))
        delivery = await outbox.put()
        await until(silent.entries, "the provider has it")
        await outbox.until_life(delivery, "pending")
        await outbox.connection.execute("UPDATE dispatcher.delivery_state SET resend_until = now() WHERE attempt = 1")
        await outbox.until_life(delivery, "held")
        await silent.end(9)
        async with Provider(tmp_path / "books", "--dedupe", "--port", str(silent.port)):
            assert await _settle(outbox, delivery, "requeue") == "settled"
            await outbox.until_life(delivery, "sent")
    assert program.run("check").returncode == 0


@pytest.mark.parametrize("end", ["expired", "cancelled: asked", "exhausted: the ledger says: asked_for"])
async def test_OB_12_what_its_provider_may_have_is_held_where_it_is_not_sent_again(
    program: Program, outbox: Outbox, tmp_path: Path, end: str
) -> None:
    """It has it, and its answer was lost; the attempt that would have told so never comes, or is put off."""
    silent = Provider(tmp_path / "books", "--dedupe", *NO_ANSWER)
    async with silent:
        settings = BRISK | _at("sms", silent, OPTIONS__KEYED="true", CALL_SECONDS_MAX="0.2")
        await program.start(**(settings | {"DISPATCHER_RETRY__BASE_SECONDS": "600"}))
        delivery = await outbox.put(max_attempts=2)
        await until(silent.entries, "the provider has it")
        await outbox.until_life(delivery, "pending")
        await silent.end(9)
        # What answers there now does not know of it.
        async with Provider(tmp_path / "others", "--dedupe", "--retry", "1", "--port", str(silent.port)):
            if end == "expired":
                await outbox.connection.execute("UPDATE dispatcher.delivery_state SET expires_at = now()")
            elif end == "cancelled: asked":
                cancel = ("deliveries", "cancel", str(delivery), "--reason", "asked")
                assert b"not sent again, but held" in program.run(*cancel).stdout
            else:
                await outbox.connection.execute("UPDATE dispatcher.channel_outbox SET run_at = now()")
            await outbox.until_life(delivery, "held")
    row = await outbox.row(delivery)
    assert row["status"] == "queued"
    assert row["error"] == f"unknown: an earlier attempt may have gone out, and is not sent again: {end}"
    assert await _settle(outbox, delivery, "sent") == "settled"
    assert program.run("check").returncode == 0


async def test_OB_22_held_is_no_end_and_is_counted(program: Program, outbox: Outbox) -> None:
    held = await _held_by_time_out(program, outbox, 3)
    rows: list[Any] = [await outbox.row(one) for one in held]
    assert {(row["status"], row["finished_at"]) for row in rows} == {("queued", None)}
    await program.until(lambda: program.metric("dispatcher_held_deliveries", channel="sms") == 3, "they are counted")
    assert program.metric("dispatcher_held_deliveries", channel="email") == 0


async def test_OB_22_held_timeout_fails_what_was_held_for_too_long_where_it_is_on(
    program: Program, outbox: Outbox
) -> None:
    timeout = {"DISPATCHER_CHANNELS__EMAIL__HELD_TIMEOUT_SECONDS": "1"}
    (kept,) = await _held_by_time_out(program, outbox, 1, **timeout)
    timed = await outbox.put("email")
    await outbox.until_life(timed, "held")
    since = await outbox.connection.fetchval("SELECT held_at FROM dispatcher.delivery_state WHERE id = $1", timed)
    await outbox.until_life(timed, "failed")
    row = await outbox.row(timed)
    assert row["error"] == "settled as failed: held for over 1 s"
    assert (row["finished_at"] - since).total_seconds() >= 1
    assert await outbox.life(kept) == "held"
    ((actor, action, *_),) = await _actions(outbox, timed)
    assert (actor, action) == ("dispatcher", "settle_failed")
