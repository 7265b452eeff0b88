"""Properties of the FCM channel: what FCM is sent, and a verdict for each of its published error codes."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from msgspec import structs

from channels.contract import Accepted, Envelope, Refused, RetryAfter, Throttled, Unknown, Unready, Verdict
from channels.fcm.channel import Fcm
from channels.fcm.options import FcmOptions
from tests.channels.fcm.fake import DEVICE, PROJECT, FakeFcm, account, error
from tests.channels.shared.web.fake_server import Behaviour, Silent, dropped, half, json_of, says
from tests.channels.smtp.support import envelope
from tests.channels.suite import Verdicts

NOW = 1_900_000_000.0
QUOTA = {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"subject": "device:1"}]}
NOT_A_TOKEN = "The registration token is not a valid FCM registration token"
ROLE = "options.service_account: fcm says 403 PERMISSION_DENIED: it may not send; give it the role"


@pytest.fixture
async def fake() -> AsyncIterator[FakeFcm]:
    """Google."""
    async with FakeFcm() as fake:
        yield fake


@asynccontextmanager
async def opened(fake: FakeFcm, **options: Any) -> AsyncIterator[Fcm]:
    given = {"service_account": account(fake.url), "url": fake.url} | options
    channel = Fcm(msgspec.convert(given, FcmOptions), lambda: NOW)
    try:
        yield channel
    finally:
        await channel.close()


def asked(to: str = DEVICE, attempt: int = 1, options: dict[str, Any] | None = None, **parts: str) -> Envelope:
    one = envelope(1, to, parts=parts or {"title": "Order 17", "body": "Shipped"}, options=options or {})
    return structs.replace(one, channel="push", attempt=attempt)


async def verdict(fake: FakeFcm, delivery: Envelope | None = None, **options: Any) -> Verdict:
    async with opened(fake, **options) as channel:
        await channel.prepare(1)
        return await sent(channel, delivery or asked())


async def sent(channel: Fcm, delivery: Envelope) -> Verdict:
    verdicts = Verdicts()
    await channel.deliver([delivery], verdicts)
    return verdicts.once_each([delivery])[delivery.delivery_id]


def message_of(fake: FakeFcm) -> dict[str, Any]:
    (request,) = fake.requests
    message: dict[str, Any] = json_of(request)["message"]
    return message


async def test_a_message_has_token_notification_and_data(fake: FakeFcm) -> None:
    delivery = asked(
        title="Order 17",
        body="Shipped \u2603",
        image="https://shop.example/17.png",
        data='{"order": "17"}',
        options={"data": {"order": "0", "kind": "shipped"}},
    )
    found = await verdict(fake, delivery)
    assert isinstance(found, Accepted)
    assert found.provider_message_id.startswith(f"projects/{PROJECT}/messages/0:")
    assert message_of(fake) == {
        "token": DEVICE,
        "notification": {"title": "Order 17", "body": "Shipped \u2603", "image": "https://shop.example/17.png"},
        "data": {"order": "17", "kind": "shipped"},
    }


async def test_a_message_of_data_alone_has_no_notification(fake: FakeFcm) -> None:
    await verdict(fake, asked(data='{"sync": "1"}'))
    assert message_of(fake) == {"token": DEVICE, "data": {"sync": "1"}}


async def test_a_message_that_is_not_shown_is_in_no_hurry_for_apple(fake: FakeFcm) -> None:
    await verdict(fake, asked(data='{"sync": "1"}', options={"priority": "high"}))
    message = message_of(fake)
    assert message["android"] == {"priority": "HIGH"}
    assert message["apns"] == {"headers": {"apns-priority": "5"}}


async def test_each_platform_is_told_priority_life_and_key_in_its_own_words(fake: FakeFcm) -> None:
    options = {"priority": "high", "ttl_seconds": 600, "collapse_key": "order-17"}
    await verdict(fake, asked(options=options))
    message = message_of(fake)
    assert message["android"] == {"priority": "HIGH", "ttl": "600s", "collapse_key": "order-17"}
    assert message["apns"] == {
        "headers": {"apns-priority": "10", "apns-expiration": str(int(NOW) + 600), "apns-collapse-id": "order-17"}
    }
    assert message["webpush"] == {"headers": {"Urgency": "high", "TTL": "600"}}


@pytest.mark.parametrize(("expires_in", "ttl"), [(90.5, 90), (-5.0, 0), (9e9, 2_419_200)])
async def test_a_message_is_kept_for_a_device_until_it_expires(fake: FakeFcm, expires_in: float, ttl: int) -> None:
    await verdict(fake, structs.replace(asked(), expires_at=NOW + expires_in))
    message = message_of(fake)
    assert message["android"] == {"ttl": f"{ttl}s"}
    assert message["apns"] == {"headers": {"apns-expiration": str(int(NOW) + ttl) if ttl else "0"}}


async def test_what_the_options_say_of_a_platform_goes_over_our_words(fake: FakeFcm) -> None:
    apns = {"headers": {"apns-priority": "5"}, "payload": {"aps": {"sound": "default", "badge": 3}}}
    await verdict(fake, asked(options={"priority": "high", "ttl_seconds": 0, "apns": apns}))
    assert message_of(fake)["apns"] == {
        "headers": {"apns-priority": "5", "apns-expiration": "0"},
        "payload": {"aps": {"sound": "default", "badge": 3}},
    }


@pytest.mark.parametrize(
    ("delivery", "reason"),
    [
        (asked(to="no token"), "recipient: is not the registration token"),
        (asked(to="\u2603"), "recipient: is not the registration token"),
        (asked(body=" "), "body: is missing or empty"),
        (asked(body="\udfff"), "body: has half a character"),
        (asked(body="x", image="javascript:1"), "image: is not a URL"),
        (asked(body="x", data="{"), "data: is not a JSON object"),
        (asked(body="x", data="[" * 100_000), "data: is not a JSON object"),
        (asked(body="x", data='{"n": 1}'), "data: has a value that is not a text"),
        (asked(body="x", data='{"from": "me"}'), "data: has a name that FCM keeps"),
        (asked(body="x", data='{"google.x": "me"}'), "data: has a name that FCM keeps"),
        (asked(body="x", options={"data": [1]}), "options.data: is not an object"),
        (asked(body="x", options={"priority": "urgent"}), "options.priority: is neither"),
        (asked(body="x", options={"priority": ["high"]}), "options.priority: is neither"),
        (asked(body="x", options={"ttl_seconds": True}), "options.ttl_seconds: is not a whole number"),
        (asked(body="x", options={"ttl_seconds": 2_419_201}), "options.ttl_seconds: is not a whole number"),
        (asked(body="x", options={"collapse_key": "x" * 65}), "options.collapse_key: is not a text"),
        (asked(body="x", options={"android": "x"}), "options.android: is not an object"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, str) else "",
)
async def test_invalid_messages_are_refused_with_their_field(fake: FakeFcm, delivery: Envelope, reason: str) -> None:
    found = await verdict(fake, delivery)
    assert isinstance(found, Refused)
    assert found.reason.startswith(reason)
    assert not found.suppresses
    assert fake.requests == []


async def test_a_payload_over_4_kb_is_refused_in_words_before_the_call(fake: FakeFcm) -> None:
    found = await verdict(fake, asked(title="t", body="x" * 4_000, data=json.dumps({"a": "y" * 100})))
    assert isinstance(found, Refused)
    # title and t, body and x, a and y.
    assert "4111 bytes, and FCM takes 4096" in found.reason
    assert fake.requests == []


async def test_a_payload_of_4_kb_is_sent_however_long_its_json_is(fake: FakeFcm) -> None:
    assert isinstance(await verdict(fake, asked(body="x" + "\n" * 4_091)), Accepted)


async def test_platforms_are_weighed_one_by_one(fake: FakeFcm) -> None:
    each = {"android": {"notification": {"x": "a" * 2_000}}, "webpush": {"notification": {"x": "a" * 2_000}}}
    assert isinstance(await verdict(fake, asked(body="x" * 2_000, options=each)), Accepted)


@pytest.mark.parametrize(
    ("behaviour", "expected"),
    [
        (
            error(404, "NOT_FOUND", "UNREGISTERED", "Requested entity was not found."),
            Refused("fcm says UNREGISTERED: the app is no longer on the device", suppresses=True),
        ),
        (
            error(400, "INVALID_ARGUMENT", "INVALID_ARGUMENT", NOT_A_TOKEN),
            Refused(f"fcm says INVALID_ARGUMENT: {NOT_A_TOKEN}"),
        ),
        (
            error(400, "INVALID_ARGUMENT", "", f"Shipped is invalid for {DEVICE.partition('_')[0]}"),
            Refused("fcm says INVALID_ARGUMENT: … is invalid for …"),
        ),
        (error(429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED"), Throttled(60.0)),
        (
            error(429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED", details=[QUOTA]),
            RetryAfter("fcm says QUOTA_EXCEEDED: too many messages to this device", 60.0),
        ),
        (error(503, "UNAVAILABLE", "UNAVAILABLE"), RetryAfter("fcm says UNAVAILABLE")),
        (error(500, "INTERNAL", "INTERNAL"), RetryAfter("fcm says INTERNAL")),
        (error(504, "DEADLINE_EXCEEDED"), Unknown("fcm says 504 DEADLINE_EXCEEDED")),
        (error(500, "UNKNOWN", "UNSPECIFIED_ERROR"), Unknown("fcm says 500 UNSPECIFIED_ERROR")),
        (says(502, raw=b"<html>"), Unknown("answered with 502 by a gateway")),
        (says(503, raw=b"<html>"), Unknown("answered with 503 by a gateway")),
        (
            says(403, raw=b"<html>"),
            RetryAfter("answered with 403 by something that is not FCM; check options.url"),
        ),
        (
            says(301, {}, Location="https://elsewhere.example"),
            RetryAfter("answered with 301 by something that is not FCM; check options.url"),
        ),
        (says(200, {}), Unknown("200 without a name")),
        (says(200, {"name": "a\nb"}), Unknown("200 without a name")),
        (says(200, {"error": {"code": 500, "status": "INTERNAL"}}), Unknown("200 without a name")),
        (half(200), Unknown("200 without a name")),
        (error(400, "<b>", "<b>"), RetryAfter("answered with 400 by something that is not FCM; check options.url")),
    ],
)
async def test_each_answer_of_fcm_has_its_verdict(fake: FakeFcm, behaviour: Behaviour, expected: Verdict) -> None:
    fake.next.append(behaviour)
    assert await verdict(fake) == expected
    assert len(fake.requests) == 1


@pytest.mark.parametrize(("status", "name"), [(429, "RESOURCE_EXHAUSTED"), (503, "UNAVAILABLE")])
async def test_retry_after_is_kept(fake: FakeFcm, status: int, name: str) -> None:
    fake.next.append(says(status, {"error": {"status": name}}, Retry_After="120"))
    found = await verdict(fake)
    assert found in (Throttled(120.0), RetryAfter("fcm says UNAVAILABLE", 120.0))


async def test_a_lost_answer_is_unknown_and_not_sent_again(fake: FakeFcm) -> None:
    fake.next.append(dropped)
    assert isinstance(await verdict(fake), Unknown)
    silent = Silent()
    fake.next.append(silent)
    found = await verdict(fake, timeout_seconds=0.2)
    silent.let_go.set()
    assert isinstance(found, Unknown)
    assert len(fake.requests) == 2


# The settings


@pytest.mark.parametrize("name", ["invalid_grant", "invalid_client", "unauthorized_client"])
async def test_a_revoked_or_expired_account_makes_the_channel_not_ready(fake: FakeFcm, name: str) -> None:
    fake.tokens.append(says(400, {"error": name, "error_description": "Invalid JWT Signature."}))
    async with opened(fake) as channel:
        with pytest.raises(Unready, match=rf"options.service_account: .*{name}.* make a new key") as caught:
            await channel.prepare(1)
        # It is not asked again at once.
        with pytest.raises(Unready, match=name):
            await channel.prepare(1)
    assert fake.granted == 1
    assert "PRIVATE KEY" not in str(caught.value)


async def test_a_token_endpoint_that_is_away_is_no_fault_of_the_account(fake: FakeFcm) -> None:
    async with opened(fake) as channel:
        for behaviour in (says(503, raw=b"<html>"), dropped, says(200, {}), half(200)):
            fake.tokens.append(behaviour)
            with pytest.raises(Unready) as caught:
                await channel.prepare(1)
            assert "options" not in str(caught.value)
        await channel.prepare(1)


async def test_an_account_that_may_not_send_makes_the_channel_not_ready_before_any_message(fake: FakeFcm) -> None:
    fake.checks.append(error(403, "PERMISSION_DENIED"))
    async with opened(fake) as channel:
        with pytest.raises(Unready, match=ROLE):
            await channel.prepare(1)
    assert fake.requests == []


async def test_an_account_of_no_project_makes_the_channel_not_ready(fake: FakeFcm) -> None:
    fake.checks.append(error(404, "NOT_FOUND"))
    async with opened(fake) as channel:
        with pytest.raises(Unready, match="there is no such project"):
            await channel.prepare(1)


@pytest.mark.parametrize("behaviour", [says(200, raw=b"<html>log in</html>"), says(404, raw=b"<html>"), says(302, {})])
async def test_a_url_that_is_not_that_of_fcm_makes_the_channel_not_ready(fake: FakeFcm, behaviour: Behaviour) -> None:
    fake.checks.append(behaviour)
    async with opened(fake) as channel:
        with pytest.raises(Unready, match=r"options\.url: answered with \d+ by something that is not FCM"):
            await channel.prepare(1)


async def test_an_fcm_that_is_overloaded_makes_the_channel_not_ready_for_now(fake: FakeFcm) -> None:
    fake.checks.append(error(503, "UNAVAILABLE"))
    async with opened(fake) as channel:
        with pytest.raises(Unready, match="FCM answers 503"):
            await channel.prepare(1)
        await channel.prepare(1)


async def test_the_account_is_checked_once_and_again_after_a_refusal(fake: FakeFcm) -> None:
    async with opened(fake) as channel:
        for _ in range(3):
            await channel.prepare(1)
        assert (fake.granted, fake.checked) == (1, 1)
        fake.next.append(error(401, "UNAUTHENTICATED"))
        found = await sent(channel, asked())
        assert isinstance(found, RetryAfter)
        assert found.reason.startswith("options.service_account: fcm says 401 UNAUTHENTICATED")
        with pytest.raises(Unready, match="401 UNAUTHENTICATED"):
            await channel.prepare(1)
        channel._shut_until = float("-inf")
        await channel.prepare(1)
        assert (fake.granted, fake.checked) == (2, 2)
        assert isinstance(await sent(channel, asked()), Accepted)


async def test_a_device_of_another_project_is_refused_where_others_take_messages(fake: FakeFcm) -> None:
    async with opened(fake) as channel:
        await channel.prepare(1)
        await sent(channel, asked())
        fake.next.append(error(403, "PERMISSION_DENIED", "SENDER_ID_MISMATCH"))
        found = await sent(channel, asked())
        assert isinstance(found, Refused)
        assert found.reason.startswith("options.service_account: FCM says SENDER_ID_MISMATCH")
        assert not found.suppresses
        await channel.prepare(1)


async def test_devices_of_another_project_alone_make_the_channel_not_ready(fake: FakeFcm) -> None:
    async with opened(fake) as channel:
        await channel.prepare(1)
        fake.next.append(error(403, "PERMISSION_DENIED", "SENDER_ID_MISMATCH"))
        assert isinstance(await sent(channel, asked()), RetryAfter)
        with pytest.raises(Unready, match="FCM says SENDER_ID_MISMATCH"):
            await channel.prepare(1)


async def test_a_missing_key_for_apns_stops_no_other_device(fake: FakeFcm) -> None:
    async with opened(fake) as channel:
        await channel.prepare(1)
        fake.next.append(error(401, "UNAUTHENTICATED", "THIRD_PARTY_AUTH_ERROR"))
        assert isinstance(await sent(channel, asked()), RetryAfter)
        await channel.prepare(1)
        assert isinstance(await sent(channel, asked()), Accepted)


async def test_a_token_is_replaced_ahead_of_time_beside_the_calls(fake: FakeFcm) -> None:
    silent = Silent()
    async with opened(fake) as channel:
        fake.expires_in = 250.0
        await channel.prepare(1)
        fake.tokens.append(silent)
        await channel.prepare(1)
        await silent.begun.wait()
        # The old one still works, and nothing waits for the new one.
        await channel.prepare(1)
        assert isinstance(await sent(channel, asked()), Accepted)
        assert fake.granted == 2
        silent.let_go.set()


async def test_a_token_that_is_about_to_end_is_waited_for(fake: FakeFcm) -> None:
    async with opened(fake) as channel:
        fake.expires_in = 30.0
        await channel.prepare(1)
        fake.token = "ya29.second"
        await channel.prepare(1)
        assert isinstance(await sent(channel, asked()), Accepted)
    assert fake.requests[0].headers["authorization"] == "Bearer ya29.second"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x", "not the JSON"),
        ("{}", "look at"),
        ('{"project_id": "UPPER CASE"}', "not the JSON"),
        ("[" * 16_000, "not the JSON"),
        (account("http://127.0.0.1:1", private_key="secret-1"), "not an RSA key"),
        (account("http://127.0.0.1:1", project_id="../x"), r"look at project_id"),
        (account("http://plain.example.org"), r"look at token_uri"),
        (account("http://127.0.0.1:1", client_email=7), r"look at client_email"),
    ],
    ids=["text", "empty", "project", "deep", "key", "path", "uri", "email"],
)
def test_a_faulty_account_is_a_fault_of_the_configuration(text: str, words: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=words) as caught:
        msgspec.convert({"service_account": text if len(text) > 1 else "xx"}, FcmOptions)
    assert "secret-1" not in str(caught.value)
    assert "make a new key" in str(caught.value)
