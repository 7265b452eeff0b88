"""Answers of the API: each is judged by its phase, and by the error code in it."""

import asyncio
import base64
import logging

import pytest

from channels.contract import (
    CUT_OFF,
    Accepted,
    Refused,
    RetryAfter,
    Throttled,
    Unknown,
    Unready,
    Verdict,
)
from channels.twilio.error_codes import DEAD_NUMBERS, REMEDIES
from tests.channels.suite import NUMBER, Post, Verdicts
from tests.channels.twilio import fake as faults
from tests.channels.twilio.conftest import Opened, delivered
from tests.channels.twilio.fake import ACCOUNT, KEY_SID, SECRET, FakeTwilio, Hanging, makes, says
from tests.channels.twilio.fake import CONTENT as TEMPLATE


async def _verdict(fake: FakeTwilio, opened: Opened, post: Post, fault: faults.Fault, **options: object) -> Verdict:
    fake.faults.append(fault)
    (found,) = await delivered(opened(**options), await post.envelopes())
    return found


async def test_a_message_that_is_made_is_accepted_by_its_sid(fake: FakeTwilio, opened: Opened, post: Post) -> None:
    envelopes = await post.envelopes(3)
    found = await delivered(opened(), envelopes)
    deliveries = [int(one.fields["StatusCallback"].rpartition("=")[2]) for one in fake.made]
    made = {delivery: f"SM{number:032x}" for number, delivery in enumerate(deliveries, 1)}
    assert found == [Accepted(made[envelope.delivery_id]) for envelope in envelopes]
    assert fake.requests[0].path == f"/2010-04-01/Accounts/{ACCOUNT}/Messages.json"


@pytest.mark.parametrize("code", sorted(DEAD_NUMBERS))
async def test_a_dead_or_unwilling_number_is_suppressed(
    code: int, fake: FakeTwilio, opened: Opened, post: Post
) -> None:
    found = await _verdict(fake, opened, post, says(400, (code, f"The number {NUMBER} is not reachable.")))
    assert found == Refused(f"twilio says {code}: The number +… is not reachable.", suppresses=True)


@pytest.mark.parametrize("code", [21408, 21602, 21606, 21608, 21617, 30007, 30008, 63016])
async def test_any_other_refusal_suppresses_nobody(code: int, fake: FakeTwilio, opened: Opened, post: Post) -> None:
    found = await _verdict(fake, opened, post, says(400, (code, f"No: {NUMBER}")))
    assert isinstance(found, Refused)
    assert f"twilio says {code}: No: +…" in found.reason
    assert not found.suppresses
    assert found.reason.startswith(REMEDIES.get(code, "twilio"))


async def test_a_template_that_the_account_does_not_have_is_named(fake: FakeTwilio, opened: Opened, post: Post) -> None:
    post.parts = {"content_sid": TEMPLATE.replace("b", "c")}
    (found,) = await delivered(opened(sends="whatsapp"), await post.envelopes())
    assert isinstance(found, Refused)
    assert found.reason.startswith("content_sid: is not a content template of this account; create it there")
    assert "twilio says 21655: The ContentSid is Invalid" in found.reason


@pytest.mark.parametrize(
    ("fault", "verdict"),
    [
        (says(429, (20429, "Too Many Requests"), Retry_After="7"), Throttled(7.0)),
        (says(429, (20429, "Too Many Requests")), Throttled(1.0)),
        (says(429, b"<html>"), Throttled(1.0)),
        (says(400, (21611, "This 'From' number has exceeded its queue")), Throttled(1.0)),
        (says(503, (20503, "Service unavailable"), Retry_After="30"), RetryAfter("twilio says 503 20503", 30.0)),
        (says(503, b"<html>"), Unknown("503")),
        (says(500, (20500, "Internal Server Error")), Unknown("500 20500")),
        (says(502, b"<html>"), Unknown("502")),
        (says(504), Unknown("504")),
        (faults.made_and_dropped, Unknown("no answer: ServerDisconnectedError")),
        (faults.cut_off, Unknown("201 without the SID of a message")),
        (faults.endless, Unknown("201 without the SID of a message")),
        (says(201, b"<html>"), Unknown("201 without the SID of a message")),
        (says(201, {"status": "queued"}), Unknown("201 without the SID of a message")),
        (says(201, {"sid": "x\r\n"}), Unknown("201 without the SID of a message")),
        (says(201, []), Unknown("201 without the SID of a message")),
        (says(201, None), Unknown("201 without the SID of a message")),
        (says(200, b"[" * 60_000), Unknown("200 without the SID of a message")),
        (makes(date_created={"a": 1}, price=[], num_segments={}), Accepted(f"SM{1:032x}")),
        (makes(date_created="yesterday", price="cheap", error_code=None), Accepted(f"SM{1:032x}")),
        # A success with an error inside.
        (says(200, {"code": 21610, "message": "Left"}), Refused("twilio says 21610: Left", suppresses=True)),
        (says(200, {"code": 20500, "message": "x"}), Unknown("200 20500")),
        (makes(status="failed", error_code=30005), Refused("twilio says 30005", suppresses=True)),
        (makes(status="failed", error_code=30007), Refused("twilio says 30007")),
    ],
)
async def test_each_answer_has_one_verdict(
    fault: faults.Fault, verdict: Verdict, fake: FakeTwilio, opened: Opened, post: Post
) -> None:
    assert await _verdict(fake, opened, post, fault) == verdict


@pytest.mark.parametrize("status", [301, 307, 400, 404, 405, 408, 413])
async def test_what_is_not_the_api_took_nothing(status: int, fake: FakeTwilio, opened: Opened, post: Post) -> None:
    found = await _verdict(fake, opened, post, says(status, b"<html>", Location="/elsewhere"))
    assert isinstance(found, RetryAfter)
    assert found.reason.startswith(f"answered with {status}")
    assert found.reason.endswith("by something that is not the API; check options.url")
    assert len(fake.requests) == 1


async def test_nobody_there_is_no_call(fake: FakeTwilio, opened: Opened, post: Post) -> None:
    channel = opened(url="http://127.0.0.1:9")
    with pytest.raises(Unready, match="the API cannot be reached"):
        await channel.prepare(1)
    (found,) = await delivered(channel, await post.envelopes())
    assert found == RetryAfter("no connection: ClientConnectorError")


async def test_a_call_that_is_cut_off_is_unknown_and_one_that_waits_is_not_called(
    fake: FakeTwilio, opened: Opened, post: Post
) -> None:
    fake.every = hanging = Hanging()
    envelopes, verdicts = await post.envelopes(3), Verdicts()
    calling = asyncio.create_task(opened(connections=1).deliver(envelopes, verdicts))
    await hanging.begun.wait()
    calling.cancel()
    await asyncio.wait([calling])
    hanging.let_go.set()
    found = list(verdicts.once_each(envelopes).values())
    assert sorted(found, key=repr) == [CUT_OFF, CUT_OFF, Unknown("no answer: given up")]
    assert len(fake.made) == 1


async def test_nothing_is_sent_once_the_licence_is_over(fake: FakeTwilio, opened: Opened, post: Post) -> None:
    """Of two batches for one connection the other waits for it, with its message made already."""
    fake.every = hanging = Hanging()
    channel = opened(connections=1)
    batches = [await post.envelopes(2), await post.envelopes(1)]
    verdicts = Verdicts()
    calling = [asyncio.create_task(channel.deliver(batch, verdicts)) for batch in batches]
    await hanging.begun.wait()
    post.now = 10.0
    hanging.let_go.set()
    await asyncio.gather(*calling)
    found = list(verdicts.once_each([one for batch in batches for one in batch]).values())
    assert sorted(type(one).__name__ for one in found) == ["Accepted", "NotCalled", "NotCalled"]
    assert len(fake.requests) == 1


# Credentials


async def test_wrong_credentials_are_found_before_anything_is_sent(fake: FakeTwilio, opened: Opened) -> None:
    channel = opened(secret="another")
    for _ in range(2):
        with pytest.raises(Unready, match=r"^options\.secret: Twilio refuses them; correct them") as told:
            await channel.prepare(1)
        assert "another" not in str(told.value)
    assert (fake.lists, fake.requests) == (2, [])
    with pytest.raises(Unready, match=r"^options\.api_key and options\.secret: Twilio refuses them"):
        await opened(secret="another", api_key=KEY_SID).prepare(1)
    with pytest.raises(Unready, match=r"^options\.account_sid: is not known to Twilio"):
        await opened(account_sid="AC" + "0" * 32, api_key=KEY_SID).prepare(1)


async def test_credentials_are_asked_about_once(fake: FakeTwilio, opened: Opened, post: Post) -> None:
    channel = opened(api_key=KEY_SID)
    for _ in range(3):
        await channel.prepare(1)
        await delivered(channel, await post.envelopes())
    assert fake.lists == 1
    users = {base64.b64decode(one.headers["authorization"].split()[1]).decode() for one in fake.requests}
    assert users == {f"{KEY_SID}:{SECRET}"}


async def test_credentials_that_are_revoked_stop_the_channel(fake: FakeTwilio, opened: Opened, post: Post) -> None:
    channel = opened()
    await channel.prepare(1)
    fake.secret = "rotated"
    (found,) = await delivered(channel, await post.envelopes())
    assert found == RetryAfter("options.secret: Twilio refuses the credentials; correct them")
    with pytest.raises(Unready, match=r"options\.secret"):
        await channel.prepare(1)
    fake.secret = SECRET
    await channel.prepare(1)
    assert await delivered(channel, await post.envelopes()) == [Accepted(f"SM{1:032x}")]


async def test_a_key_that_may_only_send_is_enough(fake: FakeTwilio, opened: Opened, post: Post) -> None:
    fake.may_list = False
    channel = opened()
    await channel.prepare(1)
    assert await delivered(channel, await post.envelopes()) == [Accepted(f"SM{1:032x}")]
    found = await _verdict(fake, opened, post, says(403, (70051, "Authorization failed")))
    assert isinstance(found, RetryAfter)
    assert found.reason.startswith("options.account_sid: may not send this (twilio says 403 70051)")


async def test_an_api_that_is_down_is_not_ready(fake: FakeTwilio, opened: Opened) -> None:
    fake.down = True
    with pytest.raises(Unready, match="the API answers 503"):
        await opened().prepare(1)


async def test_the_sdk_logs_nothing_and_reads_no_environment(
    fake: FakeTwilio, opened: Opened, post: Post, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("TWILIO_EDGE", "sydney")
    monkeypatch.setenv("TWILIO_REGION", "au1")
    await delivered(opened(), await post.envelopes())
    assert len(fake.made) == 1
    assert "twilio" not in caplog.text.casefold()
