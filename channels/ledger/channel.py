"""The ledger channel: calls over a few kept connections, judged by the phase in which each of them ended."""

import asyncio
import math
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from channels.contract import Envelope, NotCalled, Refused, Report, RetryAfter
from channels.ledger.wire import Wire
from channels.shared.batch_calls import Calls

# A provider on the same machine answers in milliseconds; this covers one whose machine is at its limit.
CONNECT_SECONDS_MAX = 5.0
# Above it the ledger hangs up. JSON makes up to six bytes of one, so rendered parts of 1 MiB always fit.
REQUEST_BYTES_MAX = 8 * 1024 * 1024
# Connections that take no further calls but have answers under way for others: past this the oldest goes at once.
RETIRED_MAX = 16


class LedgerOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """Where the ledger listens, whether it was told to de-duplicate, and over how many connections it is spoken to."""

    host: Annotated[str, Meta(min_length=1, max_length=255)] = "127.0.0.1"
    port: Annotated[int, Meta(ge=1, le=65_535)] = 8_086
    keyed: bool = False
    # Requests are pipelined: more connections make less unknown when one is lost, not more speed.
    connections: Annotated[int, Meta(ge=1, le=64)] = 4


# Deterministic, so that the same delivery and attempt are the same bytes.
_encode = msgspec.json.Encoder(order="deterministic").encode


class Ledger:
    """ProtocolName lines of JSON with a ledger."""

    keyed_recipients: frozenset[str] = frozenset()

    def __init__(self, options: LedgerOptions) -> None:
        self._options = options
        self._wires: list[Wire] = []
        self._retired: list[Wire] = []
        self._connecting = asyncio.Lock()
        self._changed = asyncio.Event()

    @property
    def idempotency_key_seconds(self) -> float:
        """As configured: the channel cannot see what the ledger was started with. It keeps its keys for ever."""
        return math.inf if self._options.keyed else 0.0

    async def prepare(self, count: int) -> None:
        """Open what is missing of the connections, one for each call at most: pipelined, one carries any count."""
        wanted = min(count, self._options.connections)
        if self._open() >= wanted:
            return
        async with self._connecting:
            self._sweep()
            missing = wanted - len(self._wires)
            troubles = await asyncio.gather(*(self._connect() for _ in range(missing)), return_exceptions=True)
            for trouble in troubles:
                # One connection is enough to go on with; without any, the reason is the first one's.
                if trouble is not None and not self._wires:
                    raise trouble

    async def deliver(self, batch: Sequence[Envelope], report: Report) -> None:
        """Send each request as soon as a connection has room, and report each answer as it comes."""
        calls = Calls(report)
        unsent = deque(batch)
        sent: set[Wire] = set()
        try:
            while unsent and (wire := await self._wire_with_room(len(unsent))):
                if _send(wire, unsent.popleft(), calls, report):
                    sent.add(wire)
            while unsent:
                report(unsent.popleft(), RetryAfter("no connection"))
            await calls.ended()
        finally:
            while unsent:
                report(unsent.popleft(), NotCalled("cut off before the call"))
            if calls.unanswered:
                calls.given_up = True
                self._retire(sent)

    async def close(self) -> None:
        """Let all connections go."""
        self._sweep()
        wires, self._wires, self._retired = [*self._wires, *self._retired], [], []
        for wire in wires:
            wire.abort()
        for wire in wires:
            await wire.gone.wait()

    def _open(self) -> int:
        return sum(wire.open for wire in self._wires)

    def _sweep(self) -> None:
        """Forget connections that are gone."""
        self._wires = [wire for wire in self._wires if wire.open]
        self._retired = [wire for wire in self._retired if not wire.gone.is_set()]

    async def _connect(self) -> None:
        async with asyncio.timeout(CONNECT_SECONDS_MAX):
            loop = asyncio.get_running_loop()
            _, wire = await loop.create_connection(self._new_wire, self._options.host, self._options.port)
            self._wires.append(wire)

    def _new_wire(self) -> Wire:
        return Wire(self._changed.set)

    async def _wire_with_room(self, count: int) -> Wire | None:
        """The open connection with the fewest calls under way, when one has room; None when none can be had."""
        reconnected = False
        while True:
            free = [wire for wire in self._wires if wire.room]
            if free:
                return min(free, key=_load)
            if self._open():
                self._changed.clear()
                await self._changed.wait()
            elif reconnected:
                return None
            else:
                # All were lost since `prepare`, to earlier calls perhaps. What was not called is not lost with them.
                reconnected = True
                with suppress(OSError, TimeoutError):
                    await self.prepare(count)

    def _retire(self, wires: set[Wire]) -> None:
        """Nobody waits for what is under way there any more, so a new call must not stand in line behind it."""
        self._sweep()
        for wire in wires:
            if wire.forsaken:
                wire.retire()
        self._retired += [wire for wire in self._wires if wire.retired]
        self._sweep()
        for wire in self._retired[:-RETIRED_MAX]:
            wire.abort()


def _load(wire: Wire) -> int:
    return wire.load


def _send(wire: Wire, envelope: Envelope, calls: Calls, report: Report) -> bool:
    """Begin one call, or say why it was not begun."""
    request = _request(envelope)
    if len(request) > REQUEST_BYTES_MAX:
        report(envelope, Refused("the message is too large for the ledger"))
    elif envelope.licence.expired():
        report(envelope, NotCalled("the licence ran out"))
    else:
        wire.send(request, calls, envelope)
        return True
    return False


def _request(envelope: Envelope) -> bytes:
    fields = {
        "key": envelope.idempotency_key,
        "delivery_id": envelope.delivery_id,
        "attempt": envelope.attempt,
        "recipient": envelope.recipient,
        "body": dict(envelope.parts),
    }
    return _encode(fields) + b"\n"
