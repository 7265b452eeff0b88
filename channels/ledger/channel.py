"""The ledger channel: calls over a few persistent connections, judged by the phase in which each of them ended."""

import asyncio
import math
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from channels.contract import CUT_OFF, EXPIRED, BaseChannel, Envelope, Refused, Report, RetryAfter
from channels.ledger.connection import Connection
from channels.shared.batch_calls import Calls

# A provider on the same machine answers in milliseconds; this covers one whose machine is at its limit.
CONNECT_SECONDS_MAX = 5.0
# Above it the ledger hangs up. JSON makes up to six bytes of one, so rendered parts of 1 MiB always fit.
REQUEST_BYTES_MAX = 8 * 1024 * 1024
# Connections that take no further calls but have answers under way for others: past this the oldest goes at once.
RETIRED_MAX = 16


class LedgerOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """The address of the ledger, whether it de-duplicates, and the number of connections."""

    host: Annotated[str, Meta(min_length=1, max_length=255)] = "127.0.0.1"
    port: Annotated[int, Meta(ge=1, le=65_535)] = 8_086
    keyed: bool = False
    # Requests are pipelined: more connections make less unknown when one is lost, not more speed.
    connections: Annotated[int, Meta(ge=1, le=64)] = 4


# Deterministic, so that the same delivery and attempt are the same bytes.
_encode = msgspec.json.Encoder(order="deterministic").encode


class Ledger(BaseChannel):
    """Exchanges lines of JSON with a ledger."""

    def __init__(self, options: LedgerOptions) -> None:
        self._options = options
        # As configured: the channel cannot see how the ledger was started. It stores its keys for ever.
        self.idempotency_key_seconds = math.inf if options.keyed else 0.0
        self._connections: list[Connection] = []
        self._retired: list[Connection] = []
        self._connecting = asyncio.Lock()
        self._changed = asyncio.Event()

    async def prepare(self, count: int) -> None:
        """Open what is missing of the connections, one for each call at most: pipelined, one carries any count."""
        wanted = min(count, self._options.connections)
        if self._open() >= wanted:
            return
        async with self._connecting:
            self._sweep()
            missing = wanted - len(self._connections)
            troubles = await asyncio.gather(*(self._connect() for _ in range(missing)), return_exceptions=True)
            for trouble in troubles:
                # One connection is enough to go on with; without any, the reason is the first one's.
                if trouble is not None and not self._connections:
                    raise trouble

    async def deliver(self, batch: Sequence[Envelope], report: Report) -> None:
        """Send each request as soon as a connection has room, and report each answer as it comes."""
        calls = Calls(report)
        unsent = deque(batch)
        sent: set[Connection] = set()
        try:
            while unsent and (connection := await self._free_connection(len(unsent))):
                if _send(connection, unsent.popleft(), calls, report):
                    sent.add(connection)
            while unsent:
                report(unsent.popleft(), RetryAfter("no connection"))
            await calls.ended()
        finally:
            while unsent:
                report(unsent.popleft(), CUT_OFF)
            if calls.unanswered:
                calls.given_up = True
                self._retire(sent)

    async def close(self) -> None:
        self._sweep()
        connections, self._connections, self._retired = [*self._connections, *self._retired], [], []
        for connection in connections:
            connection.abort()
        for connection in connections:
            await connection.gone.wait()

    def _open(self) -> int:
        return sum(connection.open for connection in self._connections)

    def _sweep(self) -> None:
        self._connections = [connection for connection in self._connections if connection.open]
        self._retired = [connection for connection in self._retired if not connection.gone.is_set()]

    async def _connect(self) -> None:
        async with asyncio.timeout(CONNECT_SECONDS_MAX):
            loop = asyncio.get_running_loop()
            _, connection = await loop.create_connection(
                lambda: Connection(self._changed.set), self._options.host, self._options.port
            )
            self._connections.append(connection)

    async def _free_connection(self, count: int) -> Connection | None:
        """The open connection with the fewest calls under way, when one has room; None when none can be had."""
        reconnected = False
        while True:
            free = [connection for connection in self._connections if connection.room]
            if free:
                return min(free, key=lambda connection: connection.load)
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

    def _retire(self, connections: set[Connection]) -> None:
        """Give up on connections with abandoned calls, so that new calls do not wait behind those."""
        self._sweep()
        for connection in connections:
            if connection.abandoned:
                connection.retire()
        self._retired += [connection for connection in self._connections if connection.retired]
        self._sweep()
        for connection in self._retired[:-RETIRED_MAX]:
            connection.abort()


def _send(connection: Connection, envelope: Envelope, calls: Calls, report: Report) -> bool:
    """Begin one call, or say why it was not begun."""
    request = _request(envelope)
    if len(request) > REQUEST_BYTES_MAX:
        report(envelope, Refused("the message is too large for the ledger"))
    elif envelope.licence.expired():
        report(envelope, EXPIRED)
    else:
        connection.send(request, calls, envelope)
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
