"""OP-06: FCM, Mastodon and the signed webhook, from a row to the provider and back."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.channels.fcm.fake import DEVICE, FakeFcm, account, error
from tests.channels.mastodon.fake import TOKEN, FakeMastodon
from tests.channels.shared.web.fake_server import LOOPBACK, FakeServer, dropped, json_of, says
from tests.channels.suite import SECRET
from tests.conformance.outbox import QUICK, Outbox
from tests.support.program import Program

BRISK = QUICK | {"DISPATCHER_RETRY__BASE_SECONDS": "0.05"}


@pytest.fixture
async def google() -> AsyncIterator[FakeFcm]:
    """FCM."""
    async with FakeFcm() as fake:
        yield fake


@pytest.fixture
async def instance() -> AsyncIterator[FakeMastodon]:
    """Mastodon."""
    async with FakeMastodon() as fake:
        yield fake


def by(channel: str, provider: str, **options: str) -> dict[str, str]:
    """The settings by which a channel has this provider."""
    prefix = f"DISPATCHER_CHANNELS__{channel.upper()}__"
    return (
        BRISK | {f"{prefix}PROVIDER": provider} | {f"{prefix}OPTIONS__{name}": text for name, text in options.items()}
    )


def pushing(google: FakeFcm, file: Path) -> dict[str, str]:
    """The push channel speaks with this one, by the key in a file."""
    file.write_text(account(google.url))
    return by("push", "fcm", SERVICE_ACCOUNT_FILE=str(file), URL=google.url)


async def test_OP_06_a_push_is_sent_and_a_device_without_the_app_is_suppressed(
    program: Program, outbox: Outbox, google: FakeFcm, tmp_path: Path
) -> None:
    await program.start(**pushing(google, tmp_path / "key.json"))
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    sent = await outbox.put(
        "push", recipient=DEVICE, template='{"title": "Order", "body": "Shipped"}', expires_at=tomorrow
    )
    await outbox.until_life(sent, "sent")
    ttl = json_of(google.requests[0])["message"]["android"]["ttl"]
    assert 0 < int(ttl.removesuffix("s")) <= 86_400
    assert (await outbox.row(sent))["provider_message_id"].startswith("projects/shop-1/messages/")
    google.next.append(error(404, "NOT_FOUND", "UNREGISTERED"))
    gone = await outbox.put("push", recipient="gone")
    await outbox.until_life(gone, "failed")
    late = await outbox.put("push", recipient="gone")
    await outbox.until_life(late, "skipped")
    assert len(google.requests) == 2


async def test_OP_06_an_expired_service_account_marks_nothing_and_says_what_to_change(
    program: Program, outbox: Outbox, google: FakeFcm, tmp_path: Path
) -> None:
    google.tokens += [says(400, {"error": "invalid_grant"})] * 10
    await program.start(**pushing(google, tmp_path / "key.json"))
    waiting = await outbox.put("push", recipient=DEVICE)
    (said, *_) = await program.until(lambda: program.events("channel.unready"), "the channel says that it is not ready")
    assert said["reason"].startswith("options.service_account: Google does not take the key (invalid_grant)")
    row = await outbox.row(waiting)
    assert (row["status"], row["attempts"]) == ("queued", 0)
    assert google.requests == []
    assert "PRIVATE KEY" not in (await asyncio.to_thread(program.run, "config", "show")).stdout.decode()


async def test_OP_06_a_post_with_a_stored_picture_is_posted_once(
    program: Program, outbox: Outbox, instance: FakeMastodon
) -> None:
    async def lost(http: object) -> object:
        await instance.post(http)  # type: ignore[arg-type]  # the request, whatever its type is called
        return await dropped(http)  # type: ignore[arg-type]  # as above

    instance.next.append(lost)  # type: ignore[arg-type]  # as above
    await outbox.connection.execute(
        "INSERT INTO dispatcher.objects (name, content_type, content, size, sha256)"
        " VALUES ('seat.png', 'image/png', 'picture', 0, '')"
    )
    await program.start(**by("social", "mastodon", ACCESS_TOKEN=TOKEN, URL=instance.url))
    options = '{"attachments": [{"object": "seat.png", "description": "A blue seat"}], "language": "en"}'
    post = await outbox.put("social", recipient="shop", options=options)
    await outbox.until_life(post, "posted")
    row = await outbox.row(post)
    assert (row["status"], row["provider_message_id"], row["attempts"]) == ("posted", "1", 2)
    assert len(instance.posts) == len(instance.uploaded) == 1
    assert b"picture" in instance.uploaded[0].body
    assert json_of(instance.requests[0])["media_ids"] == ["1"]
    (attempt,) = await outbox.attempts(post)
    assert attempt["resent_by"] == "key"


async def test_OP_06_a_wrong_token_marks_nothing(program: Program, outbox: Outbox, instance: FakeMastodon) -> None:
    await program.start(**by("social", "mastodon", ACCESS_TOKEN="other", URL=instance.url))
    waiting = await outbox.put("social", recipient="shop")
    (said, *_) = await program.until(lambda: program.events("channel.unready"), "the channel says that it is not ready")
    assert said["reason"].startswith("options.access_token: mastodon says 401")
    assert (await outbox.row(waiting))["attempts"] == 0


async def test_OP_06_a_template_over_the_limit_of_the_instance_is_refused_when_it_is_saved(
    program: Program, outbox: Outbox, instance: FakeMastodon, tmp_path: Path
) -> None:
    program.environment |= by("social", "mastodon", ACCESS_TOKEN=TOKEN, URL=instance.url, CHARACTERS_MAX="100")
    file = tmp_path / "seats.liquid"
    file.write_text("---\nchannel: social\n---\n" + "x" * 101)
    refused = await asyncio.to_thread(program.run, "templates", "put", str(file))
    assert refused.returncode == 3
    assert "101 characters, and the instance takes 100" in (refused.stdout + refused.stderr).decode()
    file.write_text("---\nchannel: social\n---\n" + "x" * 100)
    assert (await asyncio.to_thread(program.run, "templates", "put", str(file))).returncode == 0


async def test_OP_06_any_channel_goes_out_by_a_signed_webhook_and_an_error_inside_of_a_200_fails(
    program: Program, outbox: Outbox
) -> None:
    async with FakeServer(says(200, {"ok": True, "id": "m-1"})) as gateway:
        form = '{"to": "{recipient}", "text": "{parts.body}", "reference": "{id}"}'
        options = {"URL": gateway.url, "SECRETS": SECRET, "ALLOW_ADDRESSES": LOOPBACK, "BODY": form}
        pointers = {"SUCCESS_POINTER": "/ok", "ID_POINTER": "/id"}
        await program.start(**by("voice", "signed_webhook", **options, **pointers))
        called = await outbox.put("voice", recipient="+4915112345")
        await outbox.until_life(called, "called")
        assert (await outbox.row(called))["provider_message_id"] == "m-1"
        gateway.next.append(says(200, {"ok": False}))
        failed = await outbox.put("voice", recipient="+4915112345")
        await outbox.until_life(failed, "failed")
        assert (await outbox.row(failed))["error"] == "answered with 200, and /ok says: false"
        said = json_of(gateway.requests[0])
        assert (said["to"], said["text"]) == ("+4915112345", "hello")
        assert said["reference"] == gateway.requests[0].headers["webhook-id"]
