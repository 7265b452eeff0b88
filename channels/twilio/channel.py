"""The Twilio channel: one request a message, side by side, judged by phase.

The API knows no keys for what it makes: whatever may have been taken is never sent again by itself. It reports what
became of a message later, to the URL that the message carries.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence

from channels.contract import CUT_OFF, EXPIRED, BaseChannel, Envelope, Refused, Report
from channels.shared.web.client import Call, LicenceOver, Lost
from channels.shared.web.post_channel import Unsendable
from channels.targets import Receiver
from channels.twilio.answers import is_unauthorized, verdict
from channels.twilio.api import Api
from channels.twilio.message import Message, Messages
from channels.twilio.options import TwilioOptions


class Twilio(BaseChannel):
    """Sends SMS and WhatsApp messages, and calls."""

    def __init__(
        self, options: TwilioOptions, receiver: Receiver | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self._secret = options.secret
        self._connections = options.connections
        self._messages = Messages(options, receiver)
        self._api = Api(options)
        self._clock = clock

    async def prepare(self, count: int) -> None:  # noqa: ARG002 - one connection shows that there can be more
        await self._api.open()

    async def deliver(self, batch: Sequence[Envelope], report: Report) -> None:
        """Begin each request as soon as a connection is free: a task for each connection, not for each message."""
        unsent = deque(batch)
        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(min(len(batch), self._connections)):
                    workers.create_task(self._work(unsent, report))
        finally:
            for envelope in unsent:
                report(envelope, CUT_OFF)

    async def close(self) -> None:
        await self._api.close()

    async def _work(self, unsent: deque[Envelope], report: Report) -> None:
        while unsent:
            await self._deliver(unsent.popleft(), report)

    async def _deliver(self, envelope: Envelope, report: Report) -> None:
        if envelope.licence.expired():
            report(envelope, EXPIRED)
            return
        try:
            message = self._messages.make(envelope, self._clock())
        except Unsendable as fault:
            report(envelope, Refused(str(fault)))
            return
        await self._call(envelope, message, report)

    async def _call(self, envelope: Envelope, message: Message, report: Report) -> None:
        call = Call([envelope], "", {}, b"")
        try:
            found = await self._api.create(call, message)
        except LicenceOver:
            report(envelope, EXPIRED)
        except asyncio.CancelledError:
            # The caller knows only that it gave up; how far the call came is known here.
            lost = Lost(written=True, why="given up")
            report(envelope, verdict(lost, envelope, self._secret) if call.written else CUT_OFF)
            raise
        else:
            if is_unauthorized(found):
                self._api.doubt()
            report(envelope, verdict(found, envelope, self._secret))
