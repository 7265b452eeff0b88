"""OP-06: receipts over a real socket: only the signed ones, each once, and what they settle and suppress."""

import asyncio
import base64
import email
import http.client
import json
import signal
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from tests.channels.resend.fake import FakeResend, taken_and_dropped
from tests.conformance.outbox import QUICK, Outbox, faults
from tests.conformance.test_resend import at
from tests.features.receipts import support
from tests.features.receipts.support import Sns
from tests.support.program import Program
from tests.support.waits import until

PUBLIC = "https://mail.example.org/post"
SECRET = "whsec_" + base64.b64encode(b"resend-" * 5).decode()
NEWER = "whsec_" + base64.b64encode(b"newer-" * 5).decode()
OURS = "whsec_" + base64.b64encode(b"generic" * 5).decode()
TOKEN = "0123456789abcdef0123456789abcdef"
ANN = "ann@example.org"
SET = {
    "DISPATCHER_RECEIPTS__PUBLIC_URL": PUBLIC,
    "DISPATCHER_RECEIPTS__TWILIO_TOKENS": TOKEN,
    "DISPATCHER_RECEIPTS__RESEND_SECRETS": SECRET,
    "DISPATCHER_RECEIPTS__GENERIC_SECRETS": OURS,
}
MAIL = {"template": '{"subject": "s", "text": "t"}'}
FLOOD = 2_000

Answer = tuple[int, bytes, Mapping[str, str]]


class Poster:
    """Posts on one connection, as a provider does."""

    def __init__(self, program: Program) -> None:
        parts = urlsplit(program.address)
        assert parts.hostname is not None
        self._connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)

    def post(self, path: str, body: bytes, headers: Mapping[str, str], method: str = "POST") -> Answer:
        """Status, body and headers."""
        self._connection.request(method, path, body, dict(headers))
        answer = self._connection.getresponse()
        return answer.status, answer.read(), {name.lower(): text for name, text in answer.getheaders()}

    def resend(self, body: bytes, secret: str = SECRET, at: float | None = None, message_id: str = "") -> int:
        """A receipt of Resend's; answers the status."""
        headers = support.webhook(secret, body, time.time() if at is None else at, message_id)
        return self.post("/receipts/resend", body, headers)[0]

    def ours(self, **said: Any) -> int:
        """A receipt in our own form; answers the status."""
        body = json.dumps(said).encode()
        return self.post("/receipts/generic", body, support.webhook(OURS, body, time.time(), prefix="webhook-"))[0]

    def close(self) -> None:
        """Hang up."""
        self._connection.close()


@pytest.fixture
async def poster(program: Program) -> AsyncIterator[Poster]:
    """The program takes receipts, and somebody posts them."""
    await program.start(**SET)
    poster = Poster(program)
    yield poster
    poster.close()


async def _said(outbox: Outbox, delivery: int) -> list[str]:
    found = "SELECT kind FROM dispatcher.delivery_receipts WHERE delivery_id = $1 ORDER BY rank"
    return [row["kind"] for row in await outbox.connection.fetch(found, delivery)]


async def _count(outbox: Outbox, table: str) -> int:
    return int(await outbox.connection.fetchval(f"SELECT count(*) FROM dispatcher.{table}"))


async def _sent(outbox: Outbox, channel: str = "email", **columns: Any) -> int:
    delivery = await outbox.put(channel, **(MAIL | columns))
    await outbox.until_life(delivery, "sent")
    return delivery


async def _nothing_heard(outbox: Outbox) -> bool:
    tables = ("delivery_receipts", "receipt_events", "waiting_receipts", "suppressions")
    return [await _count(outbox, table) for table in tables] == [0, 0, 0, 0]


async def test_OP_06_a_receipt_is_recorded_on_its_delivery_and_shown(
    program: Program, outbox: Outbox, poster: Poster
) -> None:
    delivery = await _sent(outbox)
    assert poster.resend(support.resend("email.delivered", delivery)) == 204
    assert poster.resend(support.resend("email.sent", delivery)) == 204
    assert await _said(outbox, delivery) == ["sent", "delivered"]
    shown = json.loads(program.run("deliveries", "show", str(delivery), "--json").stdout)
    assert (shown["receipt"], shown["status"]) == ("delivered", "sent")
    assert [(one["kind"], one["provider"]) for one in shown["receipts"]] == [
        ("sent", "resend"),
        ("delivered", "resend"),
    ]
    assert b"delivered" in program.run("deliveries", "show", str(delivery)).stdout
    assert program.metric("dispatcher_receipts_total", provider="resend", became="recorded") == 2


async def test_OP_06_what_is_not_signed_by_who_may_is_refused_without_a_word_why(
    program: Program, outbox: Outbox, poster: Poster
) -> None:
    delivery = await _sent(outbox)
    body, now = support.resend("email.complained", delivery), time.time()
    right = support.webhook(SECRET, body, now)
    said = []
    for headers, sent in (
        ({}, body),
        (right, body + b" "),
        (right | {"svix-id": "another"}, body),
        (right | {"svix-timestamp": str(int(now) + 1)}, body),
        (support.webhook(OURS, body, now), body),
        (support.webhook(SECRET, body, now - 301), body),
        (support.webhook(SECRET, body, now + 310), body),
        (right, b""),
    ):
        said.append(poster.post("/receipts/resend", sent, headers))
    assert {(status, answer) for status, answer, _ in said} == {(401, said[0][1])}
    assert json.loads(said[0][1]) == {
        "type": "about:blank",
        "title": "It is not signed by anybody who may",
        "status": 401,
    }
    assert said[0][2]["content-type"] == "application/problem+json"
    assert await _nothing_heard(outbox)
    assert program.metric("dispatcher_receipts_total", provider="resend", became="forged") == len(said)
    assert [line["why"] for line in program.events("receipt.forged")][:1] == ["a header is missing, or is none"]
    assert poster.post("/receipts/resend", body, right)[0] == 204


async def test_OP_06_what_has_no_page_is_not_there_and_what_is_no_receipt_is_refused(
    outbox: Outbox, poster: Poster
) -> None:
    for path in ("/receipts/ses", "/receipts/nobody", "/receipts/%00", "/receipts/Resend"):
        status, answer, _ = poster.post(path, b"{}", {})
        assert (status, json.loads(answer)["status"]) == (404, 404)
    assert poster.post("/receipts/resend", b"", {}, "GET")[0] == 405
    for body in (b"[]", b"nonsense", b"{}"):
        assert poster.resend(body) == 400
    status, answer, _ = poster.post("/receipts/generic", b"{}", support.webhook(OURS, b"{}", time.time()))
    assert (status, "status" in json.loads(answer)["detail"]) == (400, True)
    assert await _nothing_heard(outbox)


async def test_OP_06_a_body_that_is_too_large_is_refused(program: Program, outbox: Outbox, poster: Poster) -> None:
    large = b"x" * (256 * 1024 + 1)
    for headers in ({}, {"transfer-encoding": "chunked"}):
        other = Poster(program)
        body = large if not headers else b"%x\r\n%s\r\n0\r\n\r\n" % (len(large), large)
        assert other.post("/receipts/resend", body, headers)[0] == 413
        other.close()
    assert poster.resend(b" " * (256 * 1024 - 2) + b"[]") == 400
    assert await _nothing_heard(outbox)


async def test_OP_06_a_replay_is_taken_and_says_nothing(program: Program, outbox: Outbox, poster: Poster) -> None:
    delivery = await _sent(outbox)
    body = support.resend("email.delivered", delivery)
    headers = support.webhook(SECRET, body, time.time(), "msg_once")
    assert [poster.post("/receipts/resend", body, headers)[0] for _ in range(5)] == [204] * 5
    # The same id with other words, as nobody who is honest would have it.
    assert poster.resend(support.resend("email.complained", delivery), message_id="msg_once") == 204
    assert await _said(outbox, delivery) == ["delivered"]
    assert await _count(outbox, "suppressions") == 0
    assert program.metric("dispatcher_receipts_total", became="known") == 5


async def test_OP_06_late_evidence_settles_what_is_held(program: Program, outbox: Outbox) -> None:
    await program.start(**SET, **faults("email", unknown=1))
    poster = Poster(program)
    kinds = {"email.delivered": "sent", "email.bounced": "sent", "email.failed": "failed"}
    ids = {event: await outbox.put("email", **MAIL, recipient=f"{event}@example.org") for event in kinds}
    for event, delivery in ids.items():
        await outbox.until_life(delivery, "held")
        assert poster.resend(support.resend(event, delivery, f"{event}@example.org")) == 204
        assert await outbox.life(delivery) == kinds[event]
    assert (await outbox.row(ids["email.delivered"]))["provider_message_id"] == "4ef9a417"
    assert program.run("check").returncode == 0
    assert program.metric("dispatcher_receipts_total", became="settled") == len(kinds)
    poster.close()


async def test_OP_06_what_resend_took_and_never_said_is_settled_by_the_tag_that_comes_back(
    program: Program, outbox: Outbox
) -> None:
    async with FakeResend() as fake:
        fake.every = taken_and_dropped
        await program.start(**SET, **at(fake, BATCH="true"))
        delivery = await outbox.put("email", **MAIL)
        await outbox.until_life(delivery, "held")
        mail = fake.sent[0]
        poster = Poster(program)
        body = support.resend("email.delivered", to=mail.message["to"][0], tags=mail.message["tags"], email_id=mail.id)
        assert poster.resend(body) == 204
        poster.close()
    assert (await outbox.row(delivery))["status"] == "sent"
    assert (await outbox.row(delivery))["provider_message_id"] == mail.id


async def test_OP_06_a_receipt_that_came_before_the_owner_died_settles_what_is_held_then(
    program: Program, second: Program, outbox: Outbox
) -> None:
    await program.start(**SET, **QUICK, **faults("email", hang=1))
    delivery = await outbox.put("email", **MAIL)
    await outbox.until_life(delivery, "sending")
    poster = Poster(program)
    assert poster.resend(support.resend("email.delivered", delivery)) == 204
    poster.close()
    await program.kill()
    await second.start(**SET, **QUICK)
    await outbox.until_life(delivery, "sent")
    assert await outbox.captured(delivery) == []


async def test_OP_06_hard_bounces_and_complaints_suppress_and_soft_ones_do_not(outbox: Outbox, poster: Poster) -> None:
    dead = {"bounce": {"type": "Permanent", "message": "550 5.1.1 no such user"}}
    full = {"bounce": {"type": "Transient", "message": "452 4.2.2 full"}}
    for name, event, data, life in (
        ("bob", "email.bounced", full, "sent"),
        ("ann", "email.bounced", dead, "skipped"),
        ("cid", "email.complained", {}, "skipped"),
    ):
        to = f"{name}@example.org"
        delivery = await _sent(outbox, recipient=f"{name.title()} <{to.title()}>")
        waiting = await outbox.put("email", **MAIL, recipient=to, scheduled_for=await _later(outbox))
        assert poster.resend(support.resend(event, delivery, to, **data)) == 204
        await outbox.until_life(waiting, "skipped" if life == "skipped" else "pending")
        assert await outbox.until_life(await outbox.put("email", **MAIL, recipient=to), "sent", "skipped") == life
    rows = await outbox.connection.fetch("SELECT address, source, reason FROM dispatcher.suppressions ORDER BY address")
    assert [(row["address"], row["source"]) for row in rows] == [(ANN, "bounce"), ("cid@example.org", "complaint")]
    assert "550 5.1.1" in rows[0]["reason"]


async def test_OP_06_what_a_provider_says_again_takes_no_address_back_that_was_released(
    program: Program, outbox: Outbox, poster: Poster
) -> None:
    """As where somebody has all events of a week sent again, in messages that are new."""
    delivery = await _sent(outbox)
    dead = {"type": "Permanent", "message": "550 5.1.1 no such user"}
    said = support.resend("email.bounced", delivery, bounce=dead)
    assert poster.resend(said) == 204
    assert await _count(outbox, "suppressions") == 1
    assert program.run("suppressions", "remove", ANN, "--reason", "a new mailbox", "--actor", "bob").returncode == 0
    assert poster.resend(said) == 204
    assert await _count(outbox, "suppressions") == 0
    again = support.resend("email.bounced", await _sent(outbox), bounce=dead)
    assert poster.resend(again) == 204
    assert await _count(outbox, "suppressions") == 1


async def _later(outbox: Outbox) -> Any:
    return await outbox.connection.fetchval("SELECT now() + interval '1 hour'")


async def test_OP_06_receipts_in_any_order_never_go_back(outbox: Outbox, poster: Poster) -> None:
    delivery = await _sent(outbox, "push")
    current = "SELECT kind FROM dispatcher.delivery_receipt WHERE delivery_id = $1"
    came = []
    for status in ("delivered", "sent", "opened", "failed", "bounced_soft", "complained", "delivered"):
        assert poster.ours(id=delivery, status=status) == 204
        came.append(await outbox.connection.fetchval(current, delivery))
    assert came == ["delivered", "delivered", "opened", "opened", "opened", "complained", "complained"]
    assert await outbox.life(delivery) == "sent"


async def test_OP_06_our_own_form_knows_a_delivery_by_its_key(outbox: Outbox, poster: Poster) -> None:
    delivery = await _sent(outbox, "http", idempotency_key="order-17")
    assert poster.ours(idempotency_key="order-17", status="delivered", at="2026-01-01T00:00:00Z", reason="seen") == 204
    (row,) = await outbox.connection.fetch("SELECT * FROM dispatcher.delivery_receipts")
    assert (row["delivery_id"], row["reason"], row["said_at"].year) == (delivery, "seen", 2026)


async def test_OP_06_twilio_signs_the_public_url(outbox: Outbox, poster: Poster) -> None:
    to = "+4917012345"
    delivery = await _sent(outbox, "sms", template='{"body": "x"}', recipient=to)
    fields = {"MessageSid": "SM1", "MessageStatus": "delivered", "To": to, "From": "+1555", "Body": "\u00fc & more"}
    query = f"delivery={delivery}"
    headers = support.callback(TOKEN, f"{PUBLIC}/receipts/twilio?{query}", fields)
    for path, body in (
        (f"/receipts/twilio?delivery={delivery + 1}", fields),
        ("/receipts/twilio", fields),
        (f"/receipts/twilio?{query}", fields | {"MessageStatus": "failed"}),
    ):
        assert poster.post(path, urlencode(body).encode(), headers)[0] == 401
    for _ in range(2):
        assert poster.post(f"/receipts/twilio?{query}", urlencode(fields).encode(), headers)[0] == 204
    assert await _said(outbox, delivery) == ["delivered"]


async def test_OP_06_ses_comes_through_sns_and_knows_a_mail_by_its_message_id(
    program: Program, outbox: Outbox, tmp_path: Path
) -> None:
    sns = Sns(tmp_path)
    topics = {"DISPATCHER_RECEIPTS__SES_TOPICS": support.TOPIC}
    await program.start(**topics, DISPATCHER_RECEIPTS__SES_CERTIFICATES_FILE=str(sns.certificate))
    poster = Poster(program)
    delivery, _other = await _sent(outbox), await _sent(outbox)
    mail = email.message_from_bytes(program.run("deliveries", "mail", str(delivery)).stdout)
    said = support.ses("Bounce", commonHeaders={"messageId": mail["Message-ID"]})
    for version in ("1", "2"):
        body = json.dumps(sns.notification(said, time.time(), version)).encode()
        assert poster.post("/receipts/ses", body, {"content-type": "text/plain"})[0] == 204
        assert poster.post("/receipts/ses", body.replace(b"Permanent", b"permanent"), {})[0] == 401
    rows = await outbox.connection.fetch("SELECT delivery_id, kind FROM dispatcher.delivery_receipts")
    assert [tuple(row) for row in rows] == [(delivery, "bounced_hard")]
    assert await _count(outbox, "suppressions") == 1
    poster.close()


async def test_OP_06_a_subscription_is_shown_in_the_log_and_never_followed(program: Program, tmp_path: Path) -> None:
    """Whoever listens there would hear of it."""
    heard = asyncio.Event()
    server = await asyncio.start_server(lambda _reader, _writer: heard.set(), "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/confirm"
    sns = Sns(tmp_path)
    await program.start(DISPATCHER_RECEIPTS__SES_TOPICS=support.TOPIC, DISPATCHER_RECEIPTS__SES_CERTIFICATES=sns.pem)
    poster = Poster(program)
    said = sns.notification("Confirm", time.time(), Type="SubscriptionConfirmation", Token="t", SubscribeURL=url)
    assert poster.post("/receipts/ses", json.dumps(said).encode(), {})[0] == 204
    (line,) = await program.until(lambda: program.events("receipts.confirm"), "it is shown")
    assert (line["url"], line["provider"]) == (url, "ses")
    poster.close()
    assert await program.stop() == 0
    assert not heard.is_set()
    server.close()


async def test_OP_06_a_flood_of_receipts_of_nobody_s_is_kept_within_bounds_and_hinders_nobody(
    program: Program, outbox: Outbox, poster: Poster
) -> None:
    delivery = await _sent(outbox)
    posters = [Poster(program) for _ in range(8)]

    def flood(one: Poster, number: int) -> set[int]:
        said = (
            support.resend("email.delivered", 10**12 + n, f"nobody{n}@example.org", email_id=f"{number}-{n}")
            for n in range(FLOOD // len(posters))
        )
        return {one.resend(body) for body in said}

    under_way = [asyncio.create_task(asyncio.to_thread(flood, *pair)) for pair in zip(posters, range(8), strict=True)]
    # Meanwhile messages go out, and a receipt that has a delivery finds it.
    for _ in range(5):
        await _sent(outbox)
    assert await asyncio.to_thread(poster.resend, support.resend("email.delivered", delivery)) == 204
    assert await _said(outbox, delivery) == ["delivered"]
    assert set().union(*[await one for one in under_way]) == {204}
    for one in posters:
        one.close()
    assert await _count(outbox, "waiting_receipts") == FLOOD
    await until(lambda: program.metric("dispatcher_receipts_waiting") == FLOOD, "they are counted")
    assert program.run("check").returncode == 0


async def test_OP_06_secrets_come_and_go_with_a_reload(program: Program, outbox: Outbox, config_file: Path) -> None:
    config_file.write_text(f'[receipts]\nresend_secrets = "{SECRET}"\n')
    await program.start(DISPATCHER_CONFIG=str(config_file))
    poster, body = Poster(program), support.resend("email.delivered", await _sent(outbox))
    assert (poster.resend(body), poster.resend(body, NEWER)) == (204, 401)
    changes = ((f"{NEWER} {SECRET}", (204, 204)), (NEWER, (401, 204)), ("", (404, 404)))
    for reloads, (secrets, answers) in enumerate(changes, 1):
        config_file.write_text(f'[receipts]\nresend_secrets = "{secrets}"\n')
        program.signal(signal.SIGHUP)
        await program.until(lambda: len(program.events("config.reloaded")) == reloads, "it is applied")  # noqa: B023 - it is waited for here
        assert (poster.resend(body), poster.resend(body, NEWER)) == answers
    poster.close()
    shown = program.run("config", "show", DISPATCHER_RECEIPTS__RESEND_SECRETS=SECRET).stdout.decode()
    assert SECRET not in shown
    assert SECRET.removeprefix("whsec_") not in program.log_path.read_text()
