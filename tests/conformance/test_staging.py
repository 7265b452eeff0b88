"""OP-12: in staging the real providers are called, and nobody gets anything but the chosen recipients."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.channels.mailbox import Mailbox
from tests.channels.resend.fake import FakeResend
from tests.channels.shared.web.fake_server import LOOPBACK, FakeServer, says
from tests.conformance.outbox import Outbox
from tests.conformance.test_mail import mail
from tests.conformance.test_resend import at
from tests.support.caller import Caller
from tests.support.program import Program
from tests.support.waits import until

MAIL = json.dumps({"subject": "Order 7", "text": "Hello"})
ON = {"DISPATCHER_STAGING__ENABLED": "true", "DISPATCHER_STAGING__ALLOW": "@example.org +4915550000001 room bill"}
WHY = "staging: its recipient is not on the allow-list"
LEAKS = json.dumps({"cc": "ann@real.example", "headers": {"X-SMTPAPI": '{"to": ["ann@real.example"]}'}})
HEADER = "dispatcher-staging"


@pytest.fixture
async def mailbox() -> AsyncIterator[Mailbox]:
    """A mail server that takes everything."""
    box = await Mailbox().start()
    yield box
    box.stop()


@pytest.fixture
async def web() -> AsyncIterator[FakeServer]:
    """Where Slack and endpoints are."""
    async with FakeServer(says(200, raw=b"ok")) as fake:
        yield fake


@pytest.fixture
async def functions() -> AsyncIterator[FakeServer]:
    """Where functions are."""
    async with FakeServer(says(200, {"success": True})) as fake:
        yield fake


async def _skipped(outbox: Outbox, *ids: int) -> None:
    for delivery in ids:
        await outbox.until_life(delivery, "skipped", "sent", "failed", "held", "posted")
        row = await outbox.row(delivery)
        assert (row["status"], row["error"], row["attempts"]) == ("skipped", WHY, 0)


async def test_OP_12_no_mail_server_gets_mail_for_anybody_else(
    program: Program, outbox: Outbox, mailbox: Mailbox
) -> None:
    await program.start(**mail(mailbox.port), **ON)
    chosen = await outbox.put("email", recipient="Quality <QA@example.org>", template=MAIL, options=LEAKS)
    others = [
        await outbox.put("email", recipient=recipient, template=MAIL, options=LEAKS, lane=lane)
        for recipient in ("ann@real.example", "qa@example.org <ann@real.example>", "ann%real.example@example.org")
        for lane in (0, 1, 2)
    ]
    await outbox.until_life(chosen, "sent")
    await _skipped(outbox, *others)
    assert [recipient for recipient, _ in mailbox.taken] == ["qa@example.org"]
    assert b"real.example" not in mailbox.taken[0][1]


async def test_OP_12_mail_to_others_is_redirected_and_says_for_whom_it_was(
    program: Program, outbox: Outbox, mailbox: Mailbox
) -> None:
    await program.start(**mail(mailbox.port), **ON, DISPATCHER_STAGING__REDIRECT="email=sink@example.org")
    delivery = await outbox.put("email", recipient="Ann <ann@real.example>", template=MAIL, options=LEAKS)
    await outbox.until_life(delivery, "sent")
    assert [recipient for recipient, _ in mailbox.taken] == ["sink@example.org"]
    (message,) = mailbox.messages()
    assert message["To"] == "sink@example.org"
    assert message["Subject"] == "[staging, for Ann <ann@real.example>] Order 7"
    assert message["X-Original-To"] == "Ann <ann@real.example>"
    assert (message["Cc"], message["X-SMTPAPI"]) == (None, None)


async def test_OP_12_no_api_of_mails_gets_one_for_anybody_else(program: Program, outbox: Outbox) -> None:
    async with FakeResend() as fake:
        await program.start(**at(fake, BATCH="true"), **ON, DISPATCHER_STAGING__REDIRECT="email=sink@example.org")
        ids = [
            await outbox.put("email", recipient=recipient, template=MAIL, options=LEAKS)
            for recipient in ("ann@real.example", "qa@example.org", "bob@real.example")
        ]
        for delivery in ids:
            await outbox.until_life(delivery, "sent")
        assert sorted(address for one in fake.sent for address in one.message["to"]) == [
            "qa@example.org",
            "sink@example.org",
            "sink@example.org",
        ]
        assert all("ann@real.example" not in str(one.message.get("cc")) for one in fake.sent)


async def test_OP_12_no_room_function_or_endpoint_is_called_but_the_chosen(
    program: Program, outbox: Outbox, web: FakeServer, functions: FakeServer
) -> None:
    targets = dict.fromkeys(("FUNCTIONS__BILL", "FUNCTIONS__CHARGE"), functions)
    targets |= dict.fromkeys(("WEBHOOKS__ROOM", "WEBHOOKS__SALES"), web)
    settings = {f"DISPATCHER_{name}__URL": f"{fake.url}/{name}" for name, fake in targets.items()}
    settings |= {f"DISPATCHER_{name}__ALLOW_ADDRESSES": LOOPBACK for name in targets}
    settings |= {"DISPATCHER_CHANNELS__HTTP__PROVIDER": "functions", "DISPATCHER_CHANNELS__CHAT__PROVIDER": "slack"}
    settings["DISPATCHER_CHANNELS__WEBHOOK__OPTIONS__ALLOW_ADDRESSES"] = LOOPBACK
    endpoints = f"{ON['DISPATCHER_STAGING__ALLOW']} {web.url}/mine"
    program.environment |= settings | ON | {"DISPATCHER_STAGING__ALLOW": endpoints}
    await program.start()
    for name in ("mine", "theirs"):
        words = ("webhooks", "create", name, f"{web.url}/{name}", "--event", "delivery.*")
        made = program.run(*words, "--reason", "a test", "--actor", "ann")
        assert made.returncode == 0, made.stderr
    good = [
        await outbox.put("http", recipient="bill", template='{"body": "{}"}'),
        await outbox.put("chat", recipient="room"),
    ]
    bad = [
        await outbox.put("http", recipient="charge", template='{"body": "{}"}'),
        await outbox.put("chat", recipient="sales"),
    ]
    for delivery in good:
        await outbox.until_life(delivery, "sent", "called")
    await _skipped(outbox, *bad)

    async def told() -> Any:
        rows = await outbox.connection.fetch(
            "SELECT status, error FROM dispatcher.channel_outbox WHERE channel = 'webhook' ORDER BY id"
        )
        return len(rows) == 8 and all(row["status"] != "queued" for row in rows) and rows

    rows = await until(told, "both endpoints were to be told of all four")
    assert sorted(row["status"] for row in rows) == ["sent"] * 4 + ["skipped"] * 4
    assert {row["error"] for row in rows if row["status"] == "skipped"} == {WHY}
    called = {request.path.rpartition("/")[2] for request in (*web.requests, *functions.requests)}
    assert called == {"FUNCTIONS__BILL", "WEBHOOKS__ROOM", "mine"}


@pytest.mark.parametrize("channel", ["sms", "whatsapp", "voice", "push", "social", "chat", "http", "pager"])
async def test_OP_12_nothing_goes_to_anybody_else_by_any_channel(
    program: Program, outbox: Outbox, channel: str
) -> None:
    await program.start(**ON, DISPATCHER_CHANNELS__PAGER__PROVIDER="capture")
    others = [
        await outbox.put(channel, recipient=recipient, options=LEAKS)
        for recipient in ("+4917012345", "ann@real.example", "token-of-ann", "+4915550000001,+4917012345")
    ]
    await _skipped(outbox, *others)
    assert await outbox.captured() == []


async def test_OP_12_staging_shows_everywhere(program: Program) -> None:
    program.environment |= ON | {"DISPATCHER_STAGING__REDIRECT": "email=sink@example.org"}
    await program.start()
    (event,) = program.events("staging.enabled")
    words = event["meaning"]
    assert words.endswith("those to others are redirected by email and skipped by other channels")
    status, ready = program.get("/readyz")
    assert (status, json.loads(ready)["warnings"]) == (200, [words])
    assert words in program.get("/reference")[1]
    for path in ("/healthz", "/metrics", "/nowhere", "/deliveries"):
        assert await asyncio.to_thread(_header, program, path) == "true"
    ended = program.run("check")
    assert words in ended.stdout.decode()
    assert json.loads(program.run("check", "--json").stdout)["staging"] is True


def _header(program: Program, path: str) -> str | None:
    return Caller(program, None).call("GET", path).headers.get(HEADER)


async def test_OP_12_without_staging_nothing_says_so(program: Program) -> None:
    await program.start()
    assert program.events("staging.enabled") == []
    assert await asyncio.to_thread(_header, program, "/healthz") is None
    assert json.loads(program.get("/readyz")[1])["warnings"] == []


async def test_OP_12_a_reload_begins_staging_and_does_not_end_it(
    program: Program, outbox: Outbox, config_file: Path
) -> None:
    config_file.write_text("")
    await program.start(DISPATCHER_CONFIG=str(config_file))
    await outbox.until_life(await outbox.put(recipient="+4917012345"), "sent")
    for text, ends in (
        ('[staging]\nenabled = true\nallow = "+4915550000001"', "skipped"),
        ('[staging]\nenabled = true\nallow = "+4917012345"', "sent"),
        ('[staging]\nenabled = true\nallow = "+4915550000002"', "skipped"),
        # Forgotten: that waits for a restart.
        ("", "skipped"),
        ('[staging]\nenabled = false\nallow = "+4917012345"', "skipped"),
    ):
        reloads = len(program.events("config.reloaded"))
        config_file.write_text(text)
        program.signal(signal.SIGHUP)
        await program.until(lambda seen=reloads: len(program.events("config.reloaded")) > seen, "it has reloaded")  # type: ignore[misc]  # bound now
        assert await outbox.until_life(await outbox.put(recipient="+4917012345"), "sent", "skipped") == ends
    assert "staging.enabled" in program.events("config.reloaded")[-1]["needs_restart"]
    config_file.write_text('[staging]\nenabled = true\nallow = "ann@@"')
    program.signal(signal.SIGHUP)
    await program.until(lambda: program.events("config.refused"), "it refuses what it cannot read")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"ALLOW": "a@b@c"}, "staging.allow: 'a@b@c' is not a mail address or a domain"),
        ({"ALLOW": "channel:fax"}, "staging.allow: names the channel fax, which there is not"),
        ({"REDIRECT": "email=ann"}, "staging.redirect: 'ann' is not a mail address"),
        ({"REDIRECT": "fax=+4915550000001"}, "staging.redirect: names the channel fax, which there is not"),
        ({"REDIRECT": "webhook=x"}, "staging.redirect: names webhook, and webhooks sends to no other recipient"),
    ],
)
async def test_OP_12_staging_that_says_nothing_clear_is_refused(
    program: Program, settings: dict[str, str], words: str
) -> None:
    program.environment |= {f"DISPATCHER_STAGING__{name}": text for name, text in settings.items()}
    ended = program.run("config", "check")
    assert ended.returncode == 2
    assert words in ended.stderr.decode().replace('"', "'")
