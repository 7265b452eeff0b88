"""A proxied connection: the client's connection to the proxy, the proxy's own to the server, and the rules of both."""

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import Literal, cast

from msgspec import Struct

from dispatcher.selftest.postgres_protocol import LineFollower, PostgresFollower

Direction = Literal["up", "down"]

# What a link holds in memory for each direction before it stops reading.
DELAYED_BYTES_MAX = 4 * 1024 * 1024
WRITE_BYTES_MAX = 1024 * 1024

# SO_LINGER with zero seconds: closing sends a reset and forgets what was not sent.
RESET = struct.pack("ii", 1, 0)


class Statistics(Struct):
    """The counters of a proxy. Bytes are those that were passed on."""

    accepted: int = 0
    open: int = 0
    refused: int = 0
    unreachable: int = 0
    cut: int = 0
    swallowed: int = 0
    bytes_up: int = 0
    bytes_down: int = 0


class Rules:
    """How a proxy treats what its links pass on, and the statistics of it."""

    def __init__(self) -> None:
        self.statistics = Statistics()
        self.seconds = 0.0
        self.links: set[Link] = set()
        self.bytes_left: dict[Direction, int] = {}
        self.swallows_left = 0
        self.swallows_containing = b""
        self._changed = asyncio.Event()

    async def until(self, holds: Callable[[Statistics], bool]) -> None:
        """Return as soon as the statistics are like this."""
        while not holds(self.statistics):
            self._changed.clear()
            await self._changed.wait()

    def count(self, **changes: int) -> None:
        for name, change in changes.items():
            setattr(self.statistics, name, getattr(self.statistics, name) + change)
        self._changed.set()

    def swallows(self, request: bytes) -> bool:
        if not self.swallows_left or self.swallows_containing not in request:
            return False
        self.swallows_left -= 1
        return True

    def passes(self, direction: Direction, length: int) -> int | None:
        """Count bytes; returns how many of them may pass before the line is cut, or None for all of them."""
        left = self.bytes_left.get(direction)
        cut_here = left is not None and left <= length
        passed = length if left is None else min(left, length)
        if cut_here:
            del self.bytes_left[direction]
        elif left is not None:
            self.bytes_left[direction] = left - length
        self.count(**{f"bytes_{direction}": passed})
        return passed if cut_here else None

    def closed(self, link: "Link") -> None:
        """Forget a link whose ends are both gone."""
        if link in self.links:
            self.links.discard(link)
            self.count(open=-1)


class End(asyncio.Protocol):
    def __init__(self, link: "Link", direction: Direction) -> None:
        self._link = link
        # Of what is read here.
        self.direction = direction
        self.peer: End
        self.gone = False
        self.ended = False
        self._transport: asyncio.Transport | None = None
        self._holds: set[str] = set()
        self._queue: deque[tuple[float, bytes | None]] = deque()
        self._queued_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._frozen = False
        self._finishing = False

    # Reading

    def hold(self, reason: str) -> None:
        """Stop reading until each reason is gone."""
        self._holds.add(reason)
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def release(self, reason: str) -> None:
        self._holds.discard(reason)
        if not self._holds and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def freeze(self, on: bool) -> None:
        """Neither read nor write, as behind a line that drops everything; afterwards all of it goes on."""
        self._frozen = on
        if on:
            self.hold("frozen")
        else:
            self.release("frozen")
            self._flush()

    # Writing

    def send(self, data: bytes | None, seconds: float) -> None:
        """Write this, or None for the end of the stream, when its time has come and all before it was written."""
        if not self._queue and not seconds and not self._frozen and self._transport is not None:
            self._write(data)
            return
        self._queue.append((asyncio.get_running_loop().time() + seconds, data))
        self._queued_bytes += len(data or b"")
        if self._queued_bytes > DELAYED_BYTES_MAX:
            self.peer.hold("delayed")
        self._schedule()

    def finish(self) -> None:
        """Close when everything was written."""
        self._finishing = True
        self._flush()

    def reset(self) -> None:
        """Close at once, with a TCP reset where there is one."""
        self._drop_queue()
        self._finishing = True
        if self._transport is None or self.gone:
            return
        raw: socket.socket | None = self._transport.get_extra_info("socket")
        if raw is not None and raw.family != socket.AF_UNIX:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self._transport.abort()

    def _write(self, data: bytes | None) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if data is None:
            self._transport.write_eof()
        else:
            self._transport.write(data)

    def _schedule(self) -> None:
        if self._queue and self._timer is None and not self._frozen:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(self._queue[0][0], self._time_has_come)

    def _time_has_come(self) -> None:
        self._timer = None
        self._flush()

    def _flush(self) -> None:
        if self._frozen or self._transport is None:
            return
        now = asyncio.get_running_loop().time()
        while self._queue and self._queue[0][0] <= now:
            _, data = self._queue.popleft()
            self._queued_bytes -= len(data or b"")
            self._write(data)
        if self._queued_bytes <= DELAYED_BYTES_MAX:
            self.peer.release("delayed")
        self._schedule()
        if self._finishing and not self._queue and self._transport is not None:
            self._transport.close()

    def _drop_queue(self) -> None:
        self._queue.clear()
        self._queued_bytes = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # What the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Streams get no other kind; uvloop's do not inherit from it.
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_BYTES_MAX)
        if self._finishing:
            # The other end went while this one was being connected.
            self.reset()
        elif self._holds:
            self._transport.pause_reading()
        # uvloop reads a new connection although it was paused, so something may wait for this one already.
        self._flush()

    def data_received(self, data: bytes) -> None:
        self._link.relay(self, data)

    def eof_received(self) -> bool:
        self._link.relay_end(self)
        return True

    def pause_writing(self) -> None:
        self.peer.hold("slow")

    def resume_writing(self) -> None:
        self.peer.release("slow")

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone = True
        self._drop_queue()
        self._link.lost(self, exc)


class Link:
    """Both ends, and the requests and answers between them as far as they are followed."""

    def __init__(self, rules: Rules, follower: LineFollower | PostgresFollower) -> None:
        self._rules = rules
        self._follower = follower
        self._swallow_at: int | None = None
        self.client = End(self, "up")
        self.server = End(self, "down")
        self.client.peer, self.server.peer = self.server, self.client
        # Nothing is read before there is somewhere to write it.
        self.client.hold("connecting")

    def relay(self, end: End, data: bytes) -> None:
        """Pass a piece on to the other end, as far as the rules let it."""
        if end is self.client:
            self._ask(data)
        elif self._withheld(data):
            return
        passed = self._rules.passes(end.direction, len(data))
        end.peer.send(data if passed is None else data[:passed], self._rules.seconds)
        if passed is not None:
            end.reset()
            end.peer.finish()
            self._rules.count(cut=1)

    def relay_end(self, end: End) -> None:
        """Pass the end of a stream on; when both have ended, that was all."""
        end.ended = True
        end.peer.send(None, self._rules.seconds)
        if end.peer.ended:
            end.finish()
            end.peer.finish()

    def freeze(self, on: bool) -> None:
        """Stop passing anything on, or go on."""
        self.client.freeze(on)
        self.server.freeze(on)

    def reset(self) -> None:
        self.client.reset()
        self.server.reset()

    def lost(self, end: End, exc: Exception | None) -> None:
        """One end is gone: what it had still sent is passed on, unless it went with an error."""
        if end.peer.gone:
            self._rules.closed(self)
        elif exc is not None:
            end.peer.reset()
        else:
            end.peer.finish()

    def _ask(self, data: bytes) -> None:
        for request in self._follower.up(data):
            if self._swallow_at is None and self._rules.swallows(request):
                self._swallow_at = self._follower.asked

    def _withheld(self, data: bytes) -> bool:
        """Follow what the server sends; True while its answer is being swallowed."""
        self._follower.down(data)
        if self._swallow_at is None:
            return False
        if self._follower.answered >= self._swallow_at:
            self.reset()
            self._rules.count(swallowed=1)
        elif self._follower.lost:
            # Its end would never be recognised.
            self.reset()
        return True
