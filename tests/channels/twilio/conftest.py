"""Fixtures of the tests of the Twilio channel: the stand-in, envelopes of a real claim and mark, and channels."""

from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from channels.contract import Envelope, Verdict
from channels.targets import Receiver
from channels.twilio.channel import Twilio
from channels.twilio.options import TwilioOptions
from dispatcher.db.database import Database
from tests.channels.suite import NUMBER, Post, Verdicts
from tests.channels.twilio.fake import ACCOUNT, FROM, SECRET, FakeTwilio
from tests.support.scene import Scene

Opened = Callable[..., Twilio]
RECEIVER = Receiver("https://sms.example.org/receipts/twilio")


@pytest.fixture
async def post(database: Database) -> Post:
    """Envelopes of a real claim and mark."""
    post = Post(await Scene.open(database))
    post.recipient = NUMBER
    return post


@pytest.fixture
async def fake() -> AsyncIterator[FakeTwilio]:
    """The API."""
    async with FakeTwilio() as fake:
        yield fake


@pytest.fixture
async def opened(fake: FakeTwilio) -> AsyncIterator[Opened]:
    """Opens channels to the stand-in, and closes them."""
    channels: list[Twilio] = []

    def opened(clock: Callable[[], float] = lambda: 0.0, **options: object) -> Twilio:
        given = {"account_sid": ACCOUNT, "secret": SECRET, "sender": FROM, "sends": "sms", "url": fake.url} | options
        channels.append(Twilio(TwilioOptions(**given), RECEIVER, clock))  # type: ignore[arg-type]  # of several types
        return channels[-1]

    yield opened
    for channel in channels:
        await channel.close()


async def delivered(channel: Twilio, envelopes: Sequence[Envelope]) -> list[Verdict]:
    """The verdicts of one `deliver`, in the order of the envelopes."""
    verdicts = Verdicts()
    await channel.deliver(envelopes, verdicts)
    found = verdicts.once_each(envelopes)
    return [found[envelope.delivery_id] for envelope in envelopes]
