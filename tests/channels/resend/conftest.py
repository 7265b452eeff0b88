"""Fixtures of the tests of the Resend channel: the stand-in, envelopes of a real claim and mark, and channels."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import pytest

from channels.contract import Envelope, Verdict
from channels.resend.channel import Resend
from channels.resend.options import ResendOptions
from dispatcher.db.database import Database
from tests.channels.resend.fake import KEY, FakeResend
from tests.channels.suite import SENDER, Post, Verdicts
from tests.support.scene import Scene

Opened = Callable[..., Resend]


@pytest.fixture
async def post(database: Database) -> Post:
    """Envelopes of a real claim and mark."""
    return Post(await Scene.open(database))


@pytest.fixture
async def fake() -> AsyncIterator[FakeResend]:
    """The API."""
    async with FakeResend() as fake:
        yield fake


@pytest.fixture
async def opened(fake: FakeResend) -> AsyncIterator[Opened]:
    """Opens channels to the stand-in, and closes them."""
    channels: list[Resend] = []

    def opened(**options: object) -> Resend:
        given = {"api_key": KEY, "sender": SENDER, "url": fake.url} | options
        channels.append(Resend(ResendOptions(**given)))  # type: ignore[arg-type]  # options of several types
        return channels[-1]

    yield opened
    for channel in channels:
        await channel.close()


Delivered = Callable[[Resend, Sequence[Envelope]], Awaitable[list[Verdict]]]


async def delivered(channel: Resend, envelopes: Sequence[Envelope]) -> list[Verdict]:
    """The verdicts of one `deliver`, in the order of the envelopes."""
    verdicts = Verdicts()
    await channel.deliver(envelopes, verdicts)
    found = verdicts.once_each(envelopes)
    return [found[envelope.delivery_id] for envelope in envelopes]
