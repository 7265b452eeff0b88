"""An upstream: a real server, whose side of each connection the test holds in its hands."""

import asyncio
from contextlib import suppress
from typing import Self

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Upstream:
    """A server whose side of each connection the test holds in its hands."""

    def __init__(self) -> None:
        self.waiting: asyncio.Queue[Streams] = asyncio.Queue()
        self.port = 0
        self._server: asyncio.Server
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        self.waiting.put_nowait((reader, writer))

    async def taken(self) -> Streams:
        """The next connection."""
        async with asyncio.timeout(10):
            return await self.waiting.get()

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in self._writers:
            await hang_up(writer)


async def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()
