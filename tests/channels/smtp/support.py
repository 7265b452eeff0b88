"""Fixtures of the tests of the SMTP channel: envelopes without a database, a channel for a port, and its verdicts."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from channels.contract import Envelope, Licence, Verdict
from channels.smtp.channel import Smtp
from channels.smtp.options import SmtpOptions
from tests.channels.suite import Verdicts

DATED = 1_767_225_600
SENDER = "Shop <shop@shop.example>"


def licence(clock: Callable[[], float] = lambda: 0.0) -> Licence:
    """A licence as the mark mints it: good until the clock says 10."""
    minted = object.__new__(Licence)
    minted._clock = clock
    minted.deadline = 10.0
    return minted


def envelope(number: int = 1, recipient: str = "", clock: Callable[[], float] = lambda: 0.0, **more: Any) -> Envelope:
    """One message; `parts` and `options` as given."""
    parts = more.pop("parts", {"subject": f"Order {number}", "text": f"Hello {number}"})
    return Envelope(
        licence(clock),
        number,
        "default",
        "default",
        f"key-{number}",
        "email",
        recipient or f"ann{number}@example.org",
        parts,
        more.pop("options", {}),
        1,
        DATED,
    )


def envelopes(count: int) -> list[Envelope]:
    """So many messages, to as many recipients."""
    return [envelope(number) for number in range(1, count + 1)]


def options(port: int, **given: Any) -> SmtpOptions:
    """Options as the configuration gives them."""
    defaults: dict[str, Any] = {"host": "127.0.0.1", "port": port, "from": SENDER, "connections": 1}
    return msgspec.convert(defaults | given, SmtpOptions)


@asynccontextmanager
async def channel(port: int, **given: Any) -> AsyncIterator[Smtp]:
    """A channel to a server on this machine."""
    opened = Smtp(options(port, **given))
    try:
        yield opened
    finally:
        await opened.close()


async def sent(opened: Smtp, batch: Sequence[Envelope]) -> list[Verdict]:
    """Send a batch; answers its verdicts in its own order, after seeing to it that there is one for each."""
    verdicts = Verdicts()
    await opened.prepare(len(batch))
    await opened.deliver(batch, verdicts)
    found = verdicts.once_each(batch)
    return [found[one.delivery_id] for one in batch]
