"""The test suite of every channel: envelopes from a real claim and mark, and a record of the verdicts."""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

from aiohttp import web
from msgspec import structs

from channels.contract import Channel, Envelope, Verdict
from channels.registry import Targets, open_channel
from dispatcher.config.settings import Faults, Function, Webhook
from dispatcher.db.database import Database
from dispatcher.engine.rules.life import Claimed
from dispatcher.engine.store import marks
from dispatcher.engine.streams import Rendered
from tests.channels.fcm.fake import FakeFcm, account
from tests.channels.mailbox import Mailbox, parsed
from tests.channels.mastodon.fake import TOKEN, FakeMastodon
from tests.channels.resend.fake import KEY, FakeResend
from tests.channels.shared.web.fake_server import LOOPBACK, FakeServer, Request, json_of, says
from tests.channels.twilio import fake as twilio
from tests.channels.twilio.fake import FakeTwilio
from tests.support.scene import Scene

NAME = "chat"
# Words that must never be found outside of the provider.
RECIPIENT = "Recipient-7f3a@example.org"
# In place of it where the provider calls numbers.
NUMBER = "+4915550007341"
CONTENT = "Content-9c41"
SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
OF_THE_CALL = ("webhook-timestamp", "webhook-signature")
SENDER = "Shop <shop@example.net>"


class Post:
    """Mints envelopes: nothing but a claim and a mark can."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        # Where a webhook's endpoint is.
        self.endpoint = ""
        self.now = 0.0
        self.parts: dict[str, str] = {}
        self.recipient = RECIPIENT

    async def envelopes(
        self, count: int = 1, clock: Callable[[], float] | None = None, **options: Any
    ) -> list[Envelope]:
        """Envelopes of fresh deliveries, with a licence of ten seconds by our own clock."""
        await self.scene.write(count, channel=NAME)
        return await self._seal(await self.scene.claim(count, channel=NAME), clock or (lambda: self.now), options)

    async def _seal(
        self, items: Sequence[Claimed], clock: Callable[[], float], options: dict[str, Any]
    ) -> list[Envelope]:
        licence, attempts = await marks.mark(self.scene.database, self.scene.epoch, items, clock, 10.0, "capture")
        # A mailbox tells deliveries apart by their subjects.
        rendered = [
            Rendered(
                structs.replace(item, recipient=self.recipient),
                {"subject": str(item.id), "text": CONTENT, "body": body_of(item.id)} | self.parts,
                options | {"webhook": {"id": 1, "url": self.endpoint, "secrets": (SECRET,)}}
                if self.endpoint
                else options,
            )
            for item in items
        ]
        return [one.envelope(licence, attempts[one.item.id]) for one in rendered]


class Verdicts:
    """Every verdict that was reported, in order."""

    def __init__(self) -> None:
        self.reported: list[tuple[int, Verdict]] = []

    def __call__(self, envelope: Envelope, verdict: Verdict) -> None:
        self.reported.append((envelope.delivery_id, verdict))

    def once_each(self, envelopes: Sequence[Envelope]) -> dict[int, Verdict]:
        """The verdicts by delivery, after seeing to it that each has exactly one."""
        assert sorted(one for one, _ in self.reported) == sorted(envelope.delivery_id for envelope in envelopes)
        return dict(self.reported)


class Providers:
    """Each provider with a fake server in the test, where it calls one, and what arrived there."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # What was delivered before belongs to an earlier test.
        self._last_before = 0
        self._lines: list[bytes] = []
        self._books: asyncio.Server
        self._port = 0
        self._mailbox = Mailbox()
        self.resend = FakeResend()
        self.twilio = FakeTwilio()
        self.function = FakeServer(_called)
        self.webhook = FakeServer(_posted)
        self.endpoint = FakeServer(says(204))
        self.gateway = FakeServer(says(202))
        self.fcm = FakeFcm()
        self.mastodon = FakeMastodon()

    async def start(self) -> None:
        """Listen as each of them."""
        await self._mailbox.start()
        self._books = await asyncio.start_server(self._keep, "127.0.0.1", 0)
        self._port = self._books.sockets[0].getsockname()[1]
        for fake in self._fakes():
            await fake.__aenter__()

    async def stop(self) -> None:
        """Listen no more."""
        self._books.close()
        self._mailbox.stop()
        for fake in self._fakes():
            await fake.__aexit__()

    async def forget(self) -> None:
        """Begin anew: what has arrived so far, or still arrives of it, is not shown."""
        ((self._last_before,),) = await self._database.fetch("SELECT coalesce(max(id), 0) FROM dispatcher.deliveries")
        for taken in (self._lines, self._mailbox.taken, *(fake.requests for fake in self._fakes())):
            taken.clear()

    def _fakes(self) -> tuple[FakeServer | FakeResend | FakeTwilio | FakeFcm | FakeMastodon, ...]:
        return (
            self.resend,
            self.twilio,
            self.function,
            self.webhook,
            self.endpoint,
            self.gateway,
            self.fcm,
            self.mastodon,
        )

    async def _keep(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            self._lines.append(line)
            writer.write(b'{"accepted": "ledger-%d"}\n' % len(self._lines))
        writer.close()

    def open(self, provider: str, faults: Faults | None = None) -> Channel:
        """A channel of this provider. A provider that is not here has not been thought of."""
        options: dict[str, dict[str, str | int]] = {
            "blackhole": {},
            "capture": {},
            "ledger": {"host": "127.0.0.1", "port": self._port},
            "smtp": {"host": "127.0.0.1", "port": self._mailbox.port, "from": "Shop <shop@example.org>"},
            "resend": {"api_key": KEY, "from": SENDER, "url": self.resend.url},
            "twilio": {
                "account_sid": twilio.ACCOUNT,
                "secret": twilio.SECRET,
                "from": twilio.FROM,
                "sends": "sms",
                "url": self.twilio.url,
            },
            "functions": {},
            "slack": {},
            "webhooks": {"allow_addresses": LOOPBACK},
            "fcm": {"service_account": account(self.fcm.url), "url": self.fcm.url},
            "mastodon": {"access_token": TOKEN, "url": self.mastodon.url},
            "signed_webhook": {"url": self.gateway.url, "secrets": SECRET, "allow_addresses": LOOPBACK},
        }
        named = Targets(
            {RECIPIENT: Function(url=self.function.url, token="t", allow_addresses=LOOPBACK)},
            {RECIPIENT: Webhook(url=self.webhook.url, allow_addresses=LOOPBACK)},
        )
        return open_channel(provider, faults or Faults(), self._database.connection, options[provider], named)

    async def arrived(self) -> list[tuple[int, str]]:
        """What has left, whichever way: the delivery, and every byte of it that could differ."""
        lines = [(json.loads(line)["delivery_id"], line.decode()) for line in self._lines]
        lines += [(int(parsed(data)["Subject"]), f"{to} {data.decode()}") for to, data in self._mailbox.taken]
        calls = [(_delivery(one), json.dumps(one)) for call in self.resend.requests for one in call.messages]
        calls += [
            (json.loads(one.fields["Body"])["payload"]["delivery"], f"{one.fields} {one.headers} {one.body!r}")
            for one in self.twilio.made
        ]
        calls += [(json_of(one)["payload"]["delivery"], _whole(one)) for one in self.function.requests]
        calls += [
            (json.loads(json_of(one)["text"])["payload"]["delivery"], _whole(one)) for one in self.webhook.requests
        ]
        calls += [(json_of(one)["payload"]["delivery"], _whole(one)) for one in self.endpoint.requests]
        calls += [
            (delivery_in(json_of(one)["message"]["notification"]["body"]), _whole(one)) for one in self.fcm.requests
        ]
        calls += [(delivery_in(json_of(one)["status"]), _whole(one)) for one in self.mastodon.requests]
        calls += [(delivery_in(json_of(one)["parts"]["body"]), _whole(one)) for one in self.gateway.requests]
        captured = [(row["delivery_id"], repr(row)) for row in await kept(self._database)]
        return [one for one in calls + lines + captured if one[0] > self._last_before]


def body_of(delivery_id: int) -> str:
    """What a function is sent, and at the same time a text for a chat."""
    return json.dumps({"action": "tell", "payload": {"delivery": delivery_id, "text": CONTENT}})


def delivery_in(body: str) -> int:
    """The delivery whose body this is."""
    return int(json.loads(body)["payload"]["delivery"])


async def _called(http: web.Request) -> web.StreamResponse:
    """A function that does what it is asked to."""
    number = json.loads(await http.read())["payload"]["delivery"]
    return web.json_response({"success": True, "data": {"number": number}}, headers={"X-Request-Id": f"f-{number}"})


async def _posted(http: web.Request) -> web.StreamResponse:
    """Slack."""
    number = json.loads(json.loads(await http.read())["text"])["payload"]["delivery"]
    return web.Response(text="ok", headers={"x-slack-req-id": f"s-{number}"})


def _whole(request: Request) -> str:
    """A request but for whom it is addressed to, which its URL says: that is put before it here. The time that a
    protocol has signed, and the signature over it, are of the call."""
    headers = {name: text for name, text in request.headers.items() if name not in OF_THE_CALL}
    return f"{RECIPIENT} {headers} {request.body.decode()}"


def _delivery(message: dict[str, Any]) -> int:
    return next(int(tag["value"]) for tag in message["tags"] if tag["name"] == "delivery")


async def kept(database: Database) -> list[dict[str, Any]]:
    """What was captured, without what tells one capture from another."""
    rows = await database.fetch("SELECT * FROM dispatcher.captured_messages ORDER BY delivery_id, id")
    return [{key: value for key, value in dict(row).items() if key not in {"id", "captured_at"}} for row in rows]
