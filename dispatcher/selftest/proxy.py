"""The proxy: stands between clients and their server, and breaks the line between them in each way that lines break.

    async with Proxy("127.0.0.1", "/run/postgresql/.s.PGSQL.5432") as proxy:
        connection = await asyncpg.connect(host="127.0.0.1", port=proxy.port, ...)
        proxy.swallow_answers(1)
        await connection.execute("UPDATE ...")  # is committed, and raises

What it is told holds for all connections, those that there are and those that come.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Self

from msgspec import Struct

from dispatcher.selftest.postgres_protocol import ProtocolName, follow
from dispatcher.selftest.proxy_connection import Direction, Link

CONNECT_SECONDS_MAX = 5.0


class Statistics(Struct):
    """What a proxy has done. Bytes are those that were passed on."""

    accepted: int = 0
    open: int = 0
    refused: int = 0
    unreachable: int = 0
    cut: int = 0
    swallowed: int = 0
    bytes_up: int = 0
    bytes_down: int = 0


class Proxy:
    """Listens on a free port of `listen_host` for a server: `host:port`, or the path of a unix socket."""

    def __init__(self, listen_host: str, upstream: str, protocol: ProtocolName = "postgres") -> None:
        self.statistics = Statistics()
        self.port = 0
        self._host = listen_host
        self._upstream = upstream
        self._protocol: ProtocolName = protocol
        self._server: asyncio.Server
        self._links: set[Link] = set()
        self._connecting: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._refusing = False
        self._dropping = False
        self._swallows_left = 0
        self._swallows_containing = b""
        self._bytes_left: dict[Direction, int] = {}
        self.seconds = 0.0

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, self._host, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        self._dropping = False
        for task in self._connecting:
            task.cancel()
        await asyncio.gather(*self._connecting, return_exceptions=True)
        for link in tuple(self._links):
            link.reset()
        await self.until(lambda now: not now.open)

    async def until(self, holds: Callable[[Statistics], bool]) -> None:
        """Return as soon as the statistics are like this."""
        while not holds(self.statistics):
            self._changed.clear()
            await self._changed.wait()

    # What it can be told

    def cut_all(self) -> None:
        """Reset every connection now."""
        for link in tuple(self._links):
            self.statistics.cut += 1
            link.reset()
        self._changed.set()

    def lead_to(self, upstream: str) -> None:
        """Take new connections to another server; those that there are stay where they are."""
        self._upstream = upstream

    def refuse(self, on: bool = True) -> None:
        """Reset each new connection as soon as it is there."""
        self._refusing = on

    def delay(self, seconds: float) -> None:
        """Let each piece wait this long, in either direction."""
        self.seconds = seconds

    def cut_after(self, bytes_count: int, direction: Direction) -> None:
        """Pass this many further bytes on in this direction, whichever connections they come from. The connection
        of the last one is cut behind it: who receives gets them all and then the end, who sends gets a reset."""
        self._bytes_left[direction] = bytes_count

    def drop(self, on: bool = True) -> None:
        """A black hole: nothing passes and nothing closes. Afterwards what was sent arrives, as TCP would have it."""
        self._dropping = on
        for link in tuple(self._links):
            link.freeze(on)

    def swallow_answers(self, count: int, containing: bytes = b"") -> None:
        """Pass the next requests on, wait for their complete answers (Postgres has then committed), pass nothing of
        them on and reset both sides. With `containing` only requests count whose text (SQL) has it.
        """
        self._swallows_left = count
        self._swallows_containing = containing

    # What its links ask and tell

    def swallows(self, request: bytes) -> bool:
        """Whether the answer to this request is to be swallowed."""
        if not self._swallows_left or self._swallows_containing not in request:
            return False
        self._swallows_left -= 1
        return True

    def passes(self, direction: Direction, length: int) -> int | None:
        """Count bytes; how many may still pass when the line is to be cut behind one of them."""
        left = self._bytes_left.get(direction)
        cut_here = left is not None and left <= length
        passed = length if left is None else min(left, length)
        if cut_here:
            del self._bytes_left[direction]
        elif left is not None:
            self._bytes_left[direction] = left - length
        if direction == "up":
            self.statistics.bytes_up += passed
        else:
            self.statistics.bytes_down += passed
        self._changed.set()
        return passed if cut_here else None

    def swallowed(self) -> None:
        """An answer was swallowed."""
        self.statistics.swallowed += 1
        self._changed.set()

    def cut(self) -> None:
        """A line was cut where it had to be."""
        self.statistics.cut += 1
        self._changed.set()

    def closed(self, link: Link) -> None:
        """Both ends are gone."""
        if link in self._links:
            self._links.discard(link)
            self.statistics.open -= 1
            self._changed.set()

    # Connecting

    def _accept(self) -> asyncio.Protocol:
        self.statistics.accepted += 1
        self._changed.set()
        link = Link(self, follow(self._protocol))
        if self._refusing:
            self.statistics.refused += 1
            link.server.gone = True
            # There is no connection yet: it is reset as soon as it is made.
            link.client.reset()
            return link.client
        self._links.add(link)
        self.statistics.open += 1
        if self._dropping:
            link.freeze(True)
        task = asyncio.get_running_loop().create_task(self._connect(link))
        self._connecting.add(task)
        task.add_done_callback(partial(self._connected, link))
        return link.client

    async def _connect(self, link: Link) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(CONNECT_SECONDS_MAX):
            if self._upstream.startswith("/"):
                await loop.create_unix_connection(lambda: link.server, self._upstream)
            else:
                host, _, port = self._upstream.rpartition(":")
                await loop.create_connection(lambda: link.server, host, int(port))

    def _connected(self, link: Link, task: "asyncio.Task[None]") -> None:
        """It is connected or will never be; a task that is cancelled before its first step comes by here too."""
        self._connecting.discard(task)
        if not task.cancelled():
            trouble = task.exception()
            if trouble is None:
                link.client.release("connecting")
                return
            if not isinstance(trouble, OSError):  # a time-out is one
                raise trouble
            self.statistics.unreachable += 1
            self._changed.set()
        link.server.gone = True
        link.client.reset()
        if link.client.gone:
            self.closed(link)
