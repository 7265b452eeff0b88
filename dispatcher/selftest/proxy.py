"""The proxy: stands between clients and their server, and breaks their connections in each way that networks do.

    async with Proxy("127.0.0.1", "/run/postgresql/.s.PGSQL.5432") as proxy:
        connection = await asyncpg.connect(host="127.0.0.1", port=proxy.port, ...)
        proxy.swallow_answers(1)
        await connection.execute("UPDATE ...")  # is committed, and raises

Faults are for all connections, present and future.
"""

import asyncio
from functools import partial
from typing import Self

from dispatcher.selftest.postgres_protocol import ProtocolName, follow
from dispatcher.selftest.proxy_connection import Direction, Link, Rules

CONNECT_SECONDS_MAX = 5.0


class Proxy(Rules):
    """Listens on a free port of `listen_host` for a server: `host:port`, or the path of a unix socket."""

    def __init__(self, listen_host: str, upstream: str, protocol: ProtocolName = "postgres") -> None:
        super().__init__()
        self.port = 0
        self._host = listen_host
        self._upstream = upstream
        self._protocol: ProtocolName = protocol
        self._server: asyncio.Server
        self._connecting: set[asyncio.Task[None]] = set()
        self._refusing = False
        self._dropping = False

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, self._host, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self._dropping = False
        for task in self._connecting:
            task.cancel()
        await asyncio.gather(*self._connecting, return_exceptions=True)
        for link in tuple(self.links):
            link.reset()
        await self.until(lambda now: not now.open)

    # Faults

    def cut_all(self) -> None:
        for link in tuple(self.links):
            self.count(cut=1)
            link.reset()

    def lead_to(self, upstream: str) -> None:
        """Take new connections to another server; present ones stay where they are."""
        self._upstream = upstream

    def refuse(self, on: bool = True) -> None:
        self._refusing = on

    def delay(self, seconds: float) -> None:
        self.seconds = seconds

    def cut_after(self, bytes_count: int, direction: Direction) -> None:
        """Pass this many further bytes on in this direction, of all connections. The connection of the last one is cut
        behind it: the receiver gets them all and then the end, the sender gets a reset."""
        self.bytes_left[direction] = bytes_count

    def drop(self, on: bool = True) -> None:
        """A black hole: nothing passes and nothing closes. Afterwards what was sent arrives, as TCP would have it."""
        self._dropping = on
        for link in tuple(self.links):
            link.freeze(on)

    def swallow_answers(self, count: int, containing: bytes = b"") -> None:
        """Pass the next requests on, wait for their complete answers (Postgres has then committed), pass nothing of
        them on and reset both sides. With `containing` only requests count whose text (SQL) has it.
        """
        self.swallows_left = count
        self.swallows_containing = containing

    # Connecting

    def _accept(self) -> asyncio.Protocol:
        self.count(accepted=1)
        link = Link(self, follow(self._protocol))
        if self._refusing:
            self.count(refused=1)
            link.server.gone = True
            # There is no connection yet: it is reset as soon as it is made.
            link.client.reset()
            return link.client
        self.links.add(link)
        self.count(open=1)
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
        """End connecting, also where the task was cancelled before its first step."""
        self._connecting.discard(task)
        if not task.cancelled():
            trouble = task.exception()
            if trouble is None:
                link.client.release("connecting")
                return
            if not isinstance(trouble, OSError):  # a time-out is one
                raise trouble
            self.count(unreachable=1)
        link.server.gone = True
        link.client.reset()
        if link.client.gone:
            self.closed(link)
