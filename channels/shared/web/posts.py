"""Posts: one POST for each envelope, side by side, each with its verdict as soon as that is known."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from aiohttp.abc import AbstractResolver

from channels.contract import Envelope, NotCalled, Refused, Report, Verdict
from channels.shared.web.client import Answer, Bounds, Call, Client, LicenceOver, Lost
from channels.shared.web.guard import guard_of
from channels.targets import Target

EXPIRED = NotCalled("the licence ran out")
CUT_OFF = NotCalled("cut off before the call")


TargetT = TypeVar("TargetT", bound=Target)
SpokenTo_contra = TypeVar("SpokenTo_contra", bound=Target, contravariant=True)


class Unsendable(Exception):  # noqa: N818 - what the envelope is
    """No call can be made of it. Its text is the reason, which names the field and none of its content."""


class Manner(Protocol[SpokenTo_contra]):
    """How a provider speaks."""

    def bounds(self, target: SpokenTo_contra) -> Bounds:
        """What calls of a target may use up."""

    def call(self, envelope: Envelope, target: SpokenTo_contra) -> Call:
        """The call for one envelope; Unsendable where there can be none."""

    def judge(self, envelope: Envelope, target: SpokenTo_contra, answer: Answer | Lost) -> Verdict:
        """What an answer, or its absence, means."""


class Posts(Generic[TargetT]):
    """Calls the targets that envelopes name as their recipients, each over connections of its own.

    Its connections are its own because what one target may be connected to is not allowed to another one, and so that
    one that hangs keeps nobody else waiting.
    """

    idempotency_key_seconds = 0.0
    keyed_recipients: frozenset[str] = frozenset()

    def __init__(
        self,
        manner: Manner[TargetT],
        targets: Mapping[str, TargetT],
        unknown: str,
        resolver: Callable[[], AbstractResolver] | None = None,
    ) -> None:
        self._manner = manner
        self._targets = targets
        # The reason where a recipient is none of them.
        self._unknown = unknown
        self._resolver = resolver
        self._clients: dict[str, Client] = {}

    async def prepare(self, count: int) -> None:
        """Each target is its own host: one that cannot be reached must not keep the others waiting."""

    async def deliver(self, batch: Sequence[Envelope], report: Report) -> None:
        """Begin each call at once, or as soon as its target has room."""
        async with asyncio.TaskGroup() as calls:
            for envelope in batch:
                calls.create_task(self._deliver(envelope, report))

    async def close(self) -> None:
        """Let connections go."""
        for client in self._clients.values():
            await client.close()

    async def _deliver(self, envelope: Envelope, report: Report) -> None:
        if envelope.licence.expired():
            report(envelope, EXPIRED)
            return
        target = self._target(envelope)
        if target is None:
            report(envelope, Refused(self._unknown))
            return
        try:
            client = self._client(envelope, target)
            call = self._manner.call(envelope, target)
        except Unsendable as fault:
            report(envelope, Refused(str(fault)))
            return
        try:
            answer = await client.post(call)
        except LicenceOver:
            report(envelope, EXPIRED)
        except asyncio.CancelledError:
            # Who asked for the call knows only that it gave up; how far the call came is known here.
            lost = Lost(written=True, why="given up")
            report(envelope, self._manner.judge(envelope, target, lost) if call.written else CUT_OFF)
            raise
        else:
            report(envelope, self._manner.judge(envelope, target, answer))

    def _target(self, envelope: Envelope) -> TargetT | None:
        """Where an envelope goes."""
        return self._targets.get(envelope.recipient)

    def _client(self, envelope: Envelope, target: TargetT) -> Client:
        """The connections to a target."""
        name = envelope.recipient
        if name not in self._clients:
            self._clients[name] = self._open(target)
        return self._clients[name]

    def _open(self, target: TargetT) -> Client:
        try:
            guard = guard_of(target.url, target.allow_addresses)
        except ValueError:
            raise Unsendable("recipient: its URL in the configuration cannot be called; correct it there") from None
        resolver = self._resolver() if self._resolver else None
        return Client(guard, self._manner.bounds(target), resolver)
