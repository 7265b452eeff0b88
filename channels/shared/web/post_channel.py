"""The base of channels that make one POST for each envelope, side by side, and report each verdict at once."""

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from aiohttp.abc import AbstractResolver

from channels.contract import CUT_OFF, EXPIRED, BaseChannel, Envelope, Refused, Report, Verdict
from channels.shared.web.client import Answer, Bounds, Call, Client, LicenceOver, Lost
from channels.shared.web.guard import guard_of
from channels.targets import Target

# For how long an idle connection is kept: the most common servers keep it for five seconds.
KEEP_SECONDS = 4.0
TargetT = TypeVar("TargetT", bound=Target)


class Unsendable(Exception):  # noqa: N818 - what the envelope is
    """No call can be made of it. Its text is the reason, which names the field and none of its content."""


class PostChannel(BaseChannel, Generic[TargetT]):
    """Calls the targets that envelopes name as their recipients, each over connections of its own: what one target may
    be connected to is not allowed to another, and one that hangs delays no other.
    """

    # The reason where a recipient is not a target.
    unknown: str

    def __init__(self, targets: Mapping[str, TargetT], resolver: Callable[[], AbstractResolver] | None = None) -> None:
        self._targets = targets
        self._resolver = resolver
        self._clients: dict[str, Client] = {}

    @abstractmethod
    def bounds(self, target: TargetT) -> Bounds:
        """The limits for calls of a target."""

    @abstractmethod
    def call(self, envelope: Envelope, target: TargetT) -> Call:
        """The call for one envelope; Unsendable where there can be none."""

    @abstractmethod
    def judge(self, envelope: Envelope, target: TargetT, answer: Answer | Lost) -> Verdict:
        """The verdict of an answer, or of its absence."""

    async def deliver(self, batch: Sequence[Envelope], report: Report) -> None:
        """Begin each call at once, or as soon as its target has room."""
        async with asyncio.TaskGroup() as calls:
            for envelope in batch:
                calls.create_task(self._deliver(envelope, report))

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()

    async def _deliver(self, envelope: Envelope, report: Report) -> None:
        if envelope.licence.expired():
            report(envelope, EXPIRED)
            return
        target = self._target(envelope)
        if target is None:
            report(envelope, Refused(self.unknown))
            return
        try:
            client = self._client(envelope, target)
            call = self.call(envelope, target)
        except Unsendable as fault:
            report(envelope, Refused(str(fault)))
            return
        try:
            answer = await client.post(call)
        except LicenceOver:
            report(envelope, EXPIRED)
        except asyncio.CancelledError:
            # The caller knows only that it gave up; how far the call came is known here.
            lost = Lost(written=True, why="given up")
            report(envelope, self.judge(envelope, target, lost) if call.written else CUT_OFF)
            raise
        else:
            report(envelope, self.judge(envelope, target, answer))

    def _target(self, envelope: Envelope) -> TargetT | None:
        return self._targets.get(envelope.recipient)

    def _client(self, envelope: Envelope, target: TargetT) -> Client:
        name = envelope.recipient
        if name not in self._clients:
            self._clients[name] = self._open(target)
        return self._clients[name]

    def _open(self, target: TargetT) -> Client:
        try:
            guard = guard_of(target.url, target.allow_addresses)
        except ValueError:
            raise Unsendable("recipient: its URL in the configuration cannot be called; correct it there") from None
        return Client(guard, self.bounds(target), self._resolver() if self._resolver else None)


def trace_headers(envelope: Envelope) -> Mapping[str, str]:
    """Return the header by which a server of the operator's goes on with the trace of a delivery."""
    return {} if envelope.traceparent is None else {"traceparent": envelope.traceparent}


def encoded(text: str, name: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise Unsendable(f"{name}: has half a character (a lone surrogate); remove it") from None
