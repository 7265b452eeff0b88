"""Properties of the Mastodon channel: what an instance is sent, and a verdict for each of its documented answers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec import structs

from channels.contract import (
    Accepted,
    Envelope,
    NotCalled,
    Refused,
    RetryAfter,
    Throttled,
    Unknown,
    Unready,
    Verdict,
)
from channels.mastodon.channel import Mastodon
from channels.mastodon.options import MastodonOptions
from channels.shared.web.client import delivery_key
from tests.channels.mastodon.fake import TOKEN, FakeMastodon
from tests.channels.shared.web.fake_server import Behaviour, Silent, dropped, half, json_of, says
from tests.channels.smtp.support import envelope
from tests.channels.suite import Verdicts

PICTURE = {"content": b"\x89PNG\r\n\x1a\n", "name": "seat.png", "type": "image/png", "description": "A blue seat"}


@pytest.fixture
async def fake() -> AsyncIterator[FakeMastodon]:
    """An instance."""
    async with FakeMastodon() as fake:
        yield fake


@asynccontextmanager
async def opened(fake: FakeMastodon, **options: Any) -> AsyncIterator[Mastodon]:
    given = {"access_token": TOKEN, "url": fake.url} | options
    channel = Mastodon(msgspec.convert(given, MastodonOptions))
    try:
        yield channel
    finally:
        await channel.close()


def asked(body: str = "New seats", attempt: int = 1, number: int = 1, **options: Any) -> Envelope:
    one = envelope(number, "shop", parts={"body": body}, options=options)
    return structs.replace(one, channel="social", attempt=attempt)


async def verdict(fake: FakeMastodon, delivery: Envelope | None = None, **options: Any) -> Verdict:
    async with opened(fake, **options) as channel:
        await channel.prepare(1)
        return await sent(channel, delivery or asked())


async def sent(channel: Mastodon, delivery: Envelope) -> Verdict:
    verdicts = Verdicts()
    await channel.deliver([delivery], verdicts)
    return verdicts.once_each([delivery])[delivery.delivery_id]


async def test_a_post_goes_under_the_key_of_its_delivery(fake: FakeMastodon) -> None:
    assert await verdict(fake) == Accepted("1")
    (request,) = fake.requests
    assert json_of(request) == {"status": "New seats", "visibility": "public"}
    assert request.headers["idempotency-key"] == delivery_key(asked())
    assert request.headers["authorization"] == f"Bearer {TOKEN}"


async def test_a_delivery_and_the_channel_say_how_a_post_is_shown(fake: FakeMastodon) -> None:
    delivery = asked(spoiler_text="Seats", sensitive=True, language="de")
    await verdict(fake, delivery, visibility="unlisted", language="en")
    await verdict(fake, asked(visibility="direct", number=2), visibility="unlisted", language="en")
    assert [json_of(one) for one in fake.requests] == [
        {
            "status": "New seats",
            "visibility": "unlisted",
            "language": "de",
            "spoiler_text": "Seats",
            "sensitive": True,
        },
        {"status": "New seats", "visibility": "direct", "language": "en"},
    ]


@pytest.mark.parametrize(
    ("delivery", "reason"),
    [
        (asked(" "), "body: is missing or empty"),
        (asked("\udfff"), "body: has half a character"),
        (asked("x" * 501), "body: is too long: 501 characters, and the instance takes 500 (characters_max)"),
        (asked("x" * 495, spoiler_text="seats!"), "body: is too long: 501 characters"),
        (asked(visibility="everybody"), "options.visibility: is none of public, unlisted"),
        (asked(visibility=["public"]), "options.visibility: is none of"),
        (asked(language="German"), "options.language: is not the code"),
        (asked(language=7), "options.language: is not a text"),
        (asked(spoiler_text=[1]), "options.spoiler_text: is not a text"),
        (asked(attachments=[PICTURE] * 5), "options.attachments: has more than 4 files"),
        (asked(attachments=[{"object": "gone"}]), "options.attachments[0].object: names a stored object that was not"),
        (asked(attachments=[PICTURE | {"description": 7}]), "options.attachments[0].description: is not a text"),
        (asked(attachments=[PICTURE | {"content": "%"}]), "options.attachments[0].content: is not base64"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
async def test_invalid_posts_are_refused_with_their_field(fake: FakeMastodon, delivery: Envelope, reason: str) -> None:
    found = await verdict(fake, delivery)
    assert isinstance(found, Refused)
    assert found.reason.startswith(reason)
    assert fake.requests == fake.uploaded == []


async def test_the_limit_is_that_of_the_instance(fake: FakeMastodon) -> None:
    assert isinstance(await verdict(fake, asked("x" * 1_000), characters_max=1_000), Accepted)


@pytest.mark.parametrize(
    ("behaviour", "expected"),
    [
        (
            says(422, {"error": "Validation failed: Text character limit of 500 exceeded"}),
            Refused("mastodon says 422: Validation failed: Text character limit of 500 exceeded"),
        ),
        (says(422, {"error": "New seats cannot be blank"}), Refused("mastodon says 422: … cannot be blank")),
        (says(400, {"error": 7}), RetryAfter("answered with 400, as an instance does not; check options.url")),
        (
            says(404, {"error": "Record not found"}),
            RetryAfter("answered with 404, as an instance does not; check options.url"),
        ),
        (says(404, raw=b"<html>"), RetryAfter("answered with 404, as an instance does not; check options.url")),
        (
            says(301, {}, Location="https://elsewhere.example"),
            RetryAfter("answered with 301, as an instance does not; check options.url"),
        ),
        (says(429, {"error": "Too many requests"}), Throttled(60.0)),
        (says(429, {"error": "Too many requests"}, Retry_After="7"), Throttled(7.0)),
        (says(429, {"error": "Too many requests"}, X_RateLimit_Reset="soon"), Throttled(60.0)),
        (says(429, {"error": "Too many requests"}, X_RateLimit_Reset="2001-01-01T00:00:00.000Z"), Throttled(1.0)),
        (says(500, {"error": "x"}), Unknown("answered with 500")),
        (says(503, {"error": "Temporary problem"}), Unknown("answered with 503")),
        (says(502, raw=b"<html>"), Unknown("answered with 502")),
        (says(200, {}), Unknown("200 without a number")),
        (says(200, {"error": "not now"}), Unknown("200 without a number")),
        (half(200), Unknown("200 without a number")),
    ],
)
async def test_each_answer_of_an_instance_is_judged(
    fake: FakeMastodon, behaviour: Behaviour, expected: Verdict
) -> None:
    fake.next.append(behaviour)
    assert await verdict(fake) == expected
    assert len(fake.requests) == 1


async def test_a_spent_limit_is_waited_for_until_it_resets(fake: FakeMastodon) -> None:
    resets_at = (datetime.now(UTC) + timedelta(seconds=100)).isoformat().replace("+00:00", "Z")
    fake.next.append(says(429, {"error": "Too many requests"}, X_RateLimit_Reset=resets_at))
    found = await verdict(fake)
    assert isinstance(found, Throttled)
    assert 60 < found.seconds <= 100


async def test_a_lost_answer_is_asked_for_again_under_the_same_key_and_posts_once(fake: FakeMastodon) -> None:
    async def lost(http: Any) -> Any:
        await fake.post(http)
        return await dropped(http)

    fake.next.append(lost)
    async with opened(fake) as channel:
        assert 0 < channel.idempotency_key_seconds < 3_600
        assert isinstance(await sent(channel, asked()), Unknown)
        assert await sent(channel, asked(attempt=2)) == Accepted("1")
    assert len(fake.posts) == 1
    assert fake.requests[0].body == fake.requests[1].body


# The settings


async def test_a_wrong_token_makes_the_channel_not_ready_before_any_post(fake: FakeMastodon) -> None:
    async with opened(fake, access_token="other") as channel:
        for _ in range(2):
            with pytest.raises(Unready, match=r"options.access_token: mastodon says 401: .* make a new one") as caught:
                await channel.prepare(1)
            assert "other" not in str(caught.value).split()
    assert fake.requests == []


async def test_a_token_that_may_post_and_not_read_is_good(fake: FakeMastodon) -> None:
    fake.checks.append(says(403, {"error": "This action is outside the authorized scopes"}))
    assert await verdict(fake) == Accepted("1")


@pytest.mark.parametrize(
    "behaviour", [says(404, {"error": "Record not found"}), says(403, raw=b"<html>"), says(302, {})]
)
async def test_a_url_that_is_no_instance_makes_the_channel_not_ready(fake: FakeMastodon, behaviour: Behaviour) -> None:
    fake.checks.append(behaviour)
    async with opened(fake) as channel:
        with pytest.raises(Unready, match=r"options\.url: answered with \d+, as an instance does not"):
            await channel.prepare(1)


async def test_an_instance_that_is_away_makes_the_channel_not_ready(fake: FakeMastodon) -> None:
    fake.checks.append(says(503, raw=b"<html>"))
    async with opened(fake) as channel:
        with pytest.raises(Unready, match="the instance answers 503"):
            await channel.prepare(1)
        await channel.prepare(1)


@pytest.mark.parametrize("status", [401, 403])
async def test_a_token_that_is_refused_later_stops_the_channel(fake: FakeMastodon, status: int) -> None:
    fake.next.append(says(status, {"error": "This action is outside the authorized scopes"}))
    async with opened(fake) as channel:
        await channel.prepare(1)
        found = await sent(channel, asked())
        assert isinstance(found, RetryAfter)
        assert found.reason.startswith(f"options.access_token: mastodon says {status}")
        with pytest.raises(Unready, match=r"options\.access_token"):
            await channel.prepare(1)


# Media


async def test_media_are_uploaded_before_the_post_with_their_descriptions(fake: FakeMastodon) -> None:
    second = {"content": "R0lGODlh", "name": "map.gif"}
    assert await verdict(fake, asked(attachments=[PICTURE, second])) == Accepted("1")
    first, other = fake.uploaded
    assert first.headers["content-type"].startswith("multipart/form-data; boundary=")
    boundary = first.headers["content-type"].partition("boundary=")[2]
    assert first.body.split(f"--{boundary}".encode()) == [
        b"",
        b'\r\nContent-Disposition: form-data; name="file"; filename="file.png"\r\n'
        b"Content-Type: image/png\r\n\r\n\x89PNG\r\n\x1a\n\r\n",
        b'\r\nContent-Disposition: form-data; name="description"\r\n\r\nA blue seat\r\n',
        b"--\r\n",
    ]
    assert b"image/gif" in other.body
    assert b"GIF89a" in other.body
    assert json_of(fake.requests[0])["media_ids"] == ["1", "2"]


async def test_media_of_a_post_that_is_too_long_are_not_uploaded(fake: FakeMastodon) -> None:
    assert isinstance(await verdict(fake, asked("x" * 501, attachments=[PICTURE])), Refused)
    assert fake.uploaded == []


async def test_a_post_may_have_a_picture_and_no_text(fake: FakeMastodon) -> None:
    assert await verdict(fake, asked("", attachments=[PICTURE])) == Accepted("1")


async def test_media_that_are_worked_on_are_waited_for_and_not_uploaded_again(fake: FakeMastodon) -> None:
    async def slow(http: Any) -> Any:
        return await fake.media(http, 202)

    fake.uploads.append(slow)
    fake.works.append(says(206, {"id": "1", "url": None}))
    async with opened(fake) as channel:
        still = RetryAfter("options.attachments[0]: the instance is still at work on it", 15.0)
        assert await sent(channel, asked(attachments=[PICTURE])) == still
        assert await sent(channel, asked(attachments=[PICTURE], attempt=2)) == still
        assert await sent(channel, asked(attachments=[PICTURE], attempt=3)) == Accepted("1")
    assert (len(fake.uploaded), len(fake.asked), len(fake.requests)) == (1, 2, 1)


async def test_media_whose_upload_outlives_the_licence_are_posted_by_the_next_attempt(fake: FakeMastodon) -> None:
    now = 0.0

    async def late(http: Any) -> Any:
        nonlocal now
        now = 10.0
        return await fake.media(http)

    fake.uploads.append(late)
    parts, options = {"body": "New seats"}, {"attachments": [PICTURE]}
    async with opened(fake) as channel:
        found = await sent(channel, envelope(1, "shop", clock=lambda: now, parts=parts, options=options))
        assert isinstance(found, NotCalled)
        assert fake.requests == []
        assert await sent(channel, asked(attachments=[PICTURE])) == Accepted("1")
    assert len(fake.uploaded) == 1


async def test_an_old_upload_is_not_used(fake: FakeMastodon) -> None:
    now = [0.0]
    fake.next += [says(503, {"error": "x"})] * 2
    options = msgspec.convert({"access_token": TOKEN, "url": fake.url}, MastodonOptions)
    channel = Mastodon(options, lambda: now[0])
    for now[0] in (0.0, 3_599.0, 3_600.0):
        await sent(channel, asked(attachments=[PICTURE]))
    await channel.close()
    assert [json_of(one)["media_ids"] for one in fake.requests] == [["1"], ["1"], ["2"]]


@pytest.mark.parametrize(
    ("behaviour", "expected"),
    [
        (dropped, RetryAfter("options.attachments[0]: no answer to the upload: ServerDisconnectedError")),
        (says(500, {"error": "x"}), RetryAfter("options.attachments[0]: the instance answered 500 to the upload")),
        (says(413, raw=b"<html>"), Refused("options.attachments[0]: is too large for the instance; make it smaller")),
        (
            says(422, {"error": "Validation failed: File content type is invalid"}),
            Refused(
                "options.attachments[0]: mastodon says 422: Validation failed: File content type is invalid",
            ),
        ),
        (says(429, {"error": "Too many requests"}), Throttled(60.0)),
        (
            says(200, {"id": "../x"}),
            RetryAfter("options.attachments[0]: the instance answered 200 without a number to the upload"),
        ),
    ],
)
async def test_an_upload_that_fails_posts_nothing(fake: FakeMastodon, behaviour: Behaviour, expected: Verdict) -> None:
    fake.uploads.append(behaviour)
    assert await verdict(fake, asked(attachments=[PICTURE])) == expected
    assert fake.requests == []


async def test_a_refused_upload_says_nothing_of_an_earlier_attempt(fake: FakeMastodon) -> None:
    fake.uploads.append(says(422, {"error": "Validation failed"}))
    assert isinstance(await verdict(fake, asked(attachments=[PICTURE], attempt=2)), RetryAfter)


async def test_an_upload_that_is_cut_off_uses_an_attempt(fake: FakeMastodon) -> None:
    silent = Silent()
    fake.uploads.append(silent)
    delivery, verdicts = asked(attachments=[PICTURE]), Verdicts()
    async with opened(fake) as channel:
        calling = asyncio.create_task(channel.deliver([delivery], verdicts))
        await silent.begun.wait()
        calling.cancel()
        await asyncio.wait([calling])
        silent.let_go.set()
    assert verdicts.once_each([delivery])[1] == RetryAfter("options.attachments: were not uploaded in time")
