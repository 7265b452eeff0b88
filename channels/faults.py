"""Fault injection: a channel around a channel, with faults that are drawn from a seed."""

import asyncio
import random
from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol

from channels.contract import EXPIRED, Channel, Envelope, Refused, Report, RetryAfter, Throttled, Unknown, Verdict


class FaultSettings(Protocol):
    """Beside these it has the probability per message of each of `FAULTS`, which exclude each other."""

    @property
    def seed(self) -> int: ...
    @property
    def latency(self) -> float: ...
    @property
    def latency_seconds(self) -> float: ...
    @property
    def throttle_seconds(self) -> float: ...


THROTTLED_MAX = 10_000
FAULTS = ("refuse", "bounce", "retry", "throttle", "unknown", "hang")


def any_fault(settings: FaultSettings) -> bool:
    return any(getattr(settings, name) > 0 for name in (*FAULTS, "latency"))


class Faulty:
    """Draws for each message and attempt whether it goes wrong, and hands the rest on. The same seed, delivery and
    attempt always draw the same, in whatever order messages come."""

    def __init__(self, inner: Channel, settings: FaultSettings) -> None:
        self._inner = inner
        self._settings = settings
        # How often a message was throttled: that gives the attempt back, and with it the same draw would come again.
        self._throttled: OrderedDict[int, int] = OrderedDict()

    @property
    def idempotency_key_seconds(self) -> float:
        return self._inner.idempotency_key_seconds

    @property
    def keyed_recipients(self) -> frozenset[str]:
        return self._inner.keyed_recipients

    async def prepare(self, count: int) -> None:
        await self._inner.prepare(count)

    async def deliver(self, batch: Sequence[Envelope], report: Report) -> None:
        """Begin every message's call at once, so that a slow one does not make the others slow."""
        clean: list[Envelope] = []
        wrong: list[tuple[Envelope, float, str | None]] = []
        for envelope in batch:
            wait, fault = self._draw(envelope)
            if wait or fault:
                wrong.append((envelope, wait, fault))
            else:
                clean.append(envelope)
        async with asyncio.TaskGroup() as calls:
            for envelope, wait, fault in wrong:
                calls.create_task(self._misbehave(envelope, wait, fault, report))
            if clean:
                calls.create_task(self._inner.deliver(clean, report))

    async def close(self) -> None:
        await self._inner.close()

    def _draw(self, envelope: Envelope) -> tuple[float, str | None]:
        settings = self._settings
        # Not a secret: the same draw for the same message is the point.
        throttled = self._throttled.get(envelope.delivery_id, 0)
        dice = random.Random(f"{settings.seed}:{envelope.delivery_id}:{envelope.attempt}:{throttled}")  # noqa: S311 - as said
        wait = settings.latency_seconds if dice.random() < settings.latency else 0.0
        point = dice.random()
        for name in FAULTS:
            share: float = getattr(settings, name)
            if point < share:
                return wait, name
            point -= share
        return wait, None

    async def _misbehave(self, envelope: Envelope, wait: float, fault: str | None, report: Report) -> None:
        await asyncio.sleep(wait)
        if envelope.licence.expired():
            report(envelope, EXPIRED)
            return
        match fault:
            case None:
                await self._inner.deliver([envelope], report)
            case "refuse":
                report(envelope, Refused("recipient: refused on purpose"))
            case "bounce":
                report(envelope, Refused("recipient: gone on purpose", suppresses=True))
            case "retry":
                report(envelope, RetryAfter("failed on purpose"))
            case "throttle":
                self._throttled[envelope.delivery_id] = self._throttled.get(envelope.delivery_id, 0) + 1
                if len(self._throttled) > THROTTLED_MAX:
                    self._throttled.popitem(last=False)
                report(envelope, Throttled(self._settings.throttle_seconds))
            case "unknown":
                # It arrives, and the answer is lost: the case in which sending again would be a duplicate.
                await self._inner.deliver([envelope], _discard)
                report(envelope, Unknown("the answer was lost on purpose"))
            case _:
                await asyncio.Event().wait()


def _discard(_envelope: Envelope, _verdict: Verdict) -> None:
    """Lose the answer."""
