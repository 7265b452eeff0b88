"""OP-06: SMS, WhatsApp and calls by Twilio, with what comes back: callbacks, STOP and START."""

import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.channels.twilio.fake import ACCOUNT, CONTENT, FROM, SECRET, SERVICE, FakeTwilio, made_and_dropped, says
from tests.conformance.outbox import QUICK, Outbox
from tests.conformance.test_receipts import Poster
from tests.features.receipts import support
from tests.support.program import Program

# With a path, so that one that is left out, or put twice, is found.
PUBLIC = "https://sms.example.org/in"
TOKEN = "0123456789abcdef0123456789abcdef"
TO = "+4915550007341"


@pytest.fixture
async def fake() -> AsyncIterator[FakeTwilio]:
    """The API."""
    async with FakeTwilio() as fake:
        yield fake


def at(fake: FakeTwilio, **options: str) -> dict[str, str]:
    """SMS, WhatsApp and calls go by this one."""
    given = {"ACCOUNT_SID": ACCOUNT, "SECRET": SECRET, "FROM": FROM, "URL": fake.url} | options
    settings = {"DISPATCHER_RECEIPTS__PUBLIC_URL": PUBLIC, "DISPATCHER_RECEIPTS__TWILIO_TOKENS": TOKEN}
    for channel in ("SMS", "WHATSAPP", "VOICE"):
        prefix = f"DISPATCHER_CHANNELS__{channel}__"
        settings |= {f"{prefix}PROVIDER": "twilio"}
        settings |= {f"{prefix}OPTIONS__{name}": text for name, text in given.items()}
    return QUICK | settings


async def put(outbox: Outbox, channel: str = "sms", **columns: Any) -> int:
    """One delivery."""
    return await outbox.put(channel, **({"recipient": TO} | columns))


def post(poster: Poster, url: str, **fields: str) -> int:
    """A request of Twilio's to a URL that it was given; answers the status."""
    headers = support.callback(TOKEN, url, fields)
    path = url.removeprefix(PUBLIC)
    return poster.post(path, urlencode(fields).encode(), headers)[0]


async def test_OP_06_each_channel_sends_what_it_is_named_for(
    program: Program, outbox: Outbox, fake: FakeTwilio
) -> None:
    await program.start(**at(fake, SENDERS=f"acme/shop={SERVICE}"))
    content = json.dumps({"content_sid": CONTENT, "content_variables": '{"1": "{{ name | escapejs }}"}'})
    ids = [
        await put(outbox),
        await put(outbox, tenant_id="acme", workspace_id="shop"),
        await put(outbox, "whatsapp", template=content, variables='{"name": "Ann \\"A\\""}'),
        await put(outbox, "voice"),
    ]
    lives = [await outbox.until_life(one, "sent", "called", "failed") for one in ids]
    assert lives == ["sent", "sent", "sent", "called"]
    by_delivery = {int(one.fields["StatusCallback"].rpartition("=")[2]): one.fields for one in fake.made}
    sms, other, whatsapp, call = (by_delivery[one] for one in ids)
    assert (sms["From"], sms["To"], sms["Body"]) == (FROM, TO, "hello")
    assert (other["MessagingServiceSid"], "From" in other) == (SERVICE, False)
    assert (whatsapp["To"], json.loads(whatsapp["ContentVariables"])) == (f"whatsapp:{TO}", {"1": 'Ann "A"'})
    assert "<Say>hello</Say>" in call["Twiml"]
    assert (await outbox.row(ids[0]))["provider_message_id"].startswith("SM")


async def test_OP_06_a_message_is_queued_no_longer_than_until_it_expires(
    program: Program, outbox: Outbox, fake: FakeTwilio
) -> None:
    await program.start(**at(fake))
    soon = await outbox.connection.fetchval("SELECT now() + interval '1 hour'")
    for expires_at in (soon, None):
        await outbox.until_life(await put(outbox, expires_at=expires_at), "sent")
    first, second = (one.fields for one in fake.made)
    assert 3_000 < int(first["ValidityPeriod"]) <= 3_600
    assert "ValidityPeriod" not in second


async def test_OP_06_a_callback_settles_what_was_held(program: Program, outbox: Outbox, fake: FakeTwilio) -> None:
    fake.faults.append(made_and_dropped)
    await program.start(**at(fake))
    delivery = await put(outbox)
    await outbox.until_life(delivery, "held")
    poster, url = Poster(program), fake.made[0].fields["StatusCallback"]
    assert post(poster, url, MessageSid="SM1", MessageStatus="delivered", To=TO) == 204
    await outbox.until_life(delivery, "sent")
    assert len(fake.requests) == 1
    # One that we never sent waits for its delivery, and is forgotten.
    assert post(poster, url + "9999", MessageSid="SM2", MessageStatus="delivered", To="+4917099999") == 204
    assert await outbox.connection.fetchval("SELECT count(*) FROM dispatcher.waiting_receipts") == 1
    poster.close()


async def test_OP_06_a_dead_number_gets_nothing_more_by_this_channel(
    program: Program, outbox: Outbox, fake: FakeTwilio
) -> None:
    fake.faults.append(says(400, (21614, f"'To' number {TO} is not a mobile number")))
    await program.start(**at(fake))
    assert await outbox.until_life(await put(outbox), "failed", "sent") == "failed"
    assert await outbox.until_life(await put(outbox), "skipped", "sent") == "skipped"
    assert await outbox.until_life(await put(outbox, "voice"), "called", "skipped") == "called"
    (found,) = await outbox.connection.fetch("SELECT address, channel, reason FROM dispatcher.suppressions")
    assert (found["address"], found["channel"]) == (TO, "sms")
    assert "twilio says 21614" in found["reason"]


async def test_OP_06_stop_and_start_are_heeded_by_the_tenants_that_have_written(
    program: Program, outbox: Outbox, fake: FakeTwilio
) -> None:
    await program.start(**at(fake))
    poster, url = Poster(program), f"{PUBLIC}/receipts/twilio"
    await outbox.until_life(await put(outbox), "sent")
    await outbox.until_life(await put(outbox, tenant_id="acme", recipient="+49 155 5000-7341"), "sent")
    await outbox.until_life(await put(outbox, "voice", tenant_id="caller"), "called")
    said = {"SmsStatus": "received", "From": TO, "To": FROM}
    assert post(poster, url, MessageSid="SM7", Body="Stop", **said) == 204
    rows = await outbox.connection.fetch("SELECT tenant_id, address, channel, source FROM dispatcher.suppressions")
    assert sorted(map(tuple, rows)) == [
        ("acme", TO, "sms", "unsubscribe"),
        ("default", TO, "sms", "unsubscribe"),
    ]
    assert await outbox.until_life(await put(outbox), "skipped", "sent") == "skipped"
    assert await outbox.until_life(await put(outbox, "voice"), "called", "skipped") == "called"
    assert post(poster, url, MessageSid="SM8", Body="START", **said) == 204
    # What is heard again changes nothing.
    assert post(poster, url, MessageSid="SM7", Body="Stop", **said) == 204
    assert await outbox.until_life(await put(outbox), "skipped", "sent") == "sent"
    assert await outbox.connection.fetchval("SELECT count(*) FROM dispatcher.suppressions") == 0
    # The URL may name the tenant, which needs no delivery then.
    own = url + "?tenant=new&channel=voice"
    assert post(poster, own, MessageSid="SM9", Body="STOP", **said) == 204
    rows = await outbox.connection.fetch("SELECT tenant_id, channel FROM dispatcher.suppressions")
    assert list(map(tuple, rows)) == [("new", "voice")]
    assert post(poster, url, MessageSid="SM10", Body="Thank you!", **said) == 204
    assert program.metric("dispatcher_receipts_total", provider="twilio", became="stopped") == 3
    poster.close()


async def test_OP_06_messages_carry_the_url_for_callbacks_while_those_are_taken(
    program: Program, outbox: Outbox, fake: FakeTwilio, config_file: Path
) -> None:
    receipts = f'[receipts]\npublic_url = "{PUBLIC}"\ntwilio_tokens = "{TOKEN}"\n'
    settings = {name: text for name, text in at(fake).items() if "RECEIPTS" not in name}
    config_file.write_text("")
    await program.start(DISPATCHER_CONFIG=str(config_file), **settings)
    for reloads, (text, carried) in enumerate((("", False), (receipts, True), ("", False))):
        if reloads:
            config_file.write_text(text)
            program.signal(signal.SIGHUP)
            await program.until(lambda: len(program.events("config.reloaded")) == reloads, "it is applied")  # noqa: B023 - it is waited for here
        await outbox.until_life(await put(outbox), "sent")
        assert ("StatusCallback" in fake.made[-1].fields) is carried


async def test_OP_06_wrong_credentials_mark_nothing_until_they_are_corrected(
    program: Program, outbox: Outbox, fake: FakeTwilio
) -> None:
    fake.secret = "rotated"
    await program.start(**at(fake))
    delivery = await put(outbox)
    (line, *_) = await program.until(lambda: program.events("channel.unready"), "it says so")
    assert line["reason"].startswith("options.secret: Twilio refuses them; correct them")
    row = await outbox.row(delivery)
    assert (row["attempts"], await outbox.life(delivery)) in {(0, "pending"), (0, "claimed")}
    assert not fake.requests
    assert SECRET not in program.log_path.read_text()
