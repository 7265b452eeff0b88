"""The client: HTTP/1.1 over one connection that is kept, with whatever bytes it is given."""

import asyncio
from http import HTTPStatus
from urllib.parse import urlsplit

from msgspec import Struct

ANSWER_SECONDS_MAX = 60.0
HEAD_BYTES_MAX = 256 * 1024


class Answered(Struct, frozen=True):
    """An answer; status 0 where the connection was closed instead."""

    status: int
    body: bytes = b""


class Client:
    """One connection, made again when it was closed."""

    def __init__(self, address: str) -> None:
        place = urlsplit(address)
        self._host, self._port = str(place.hostname), place.port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, sent: bytes, method: str) -> Answered:
        """Send it; what is answered first is its answer."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                return await self._ask(sent, method)
        except (OSError, EOFError, asyncio.LimitOverrunError):
            await self.close()
            return Answered(0)

    async def _ask(self, sent: bytes, method: str) -> Answered:
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port, limit=HEAD_BYTES_MAX)
        reader, writer = self._streams
        writer.write(sent)
        # Not waited for: a server that refuses a long one answers before all of it is there.
        status, headers = await _head(reader)
        while status == HTTPStatus.CONTINUE:
            status, headers = await _head(reader)
        body = b""
        if method != "HEAD" and status != HTTPStatus.NO_CONTENT:
            body = await _body(reader, headers)
        if headers.get("connection") == "close":
            await self.close()
        return Answered(status, body)

    async def close(self) -> None:
        """Hang up."""
        if self._streams is None:
            return
        self._streams[1].close()
        self._streams = None


async def _head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
    return int(lines[0].split(" ")[1]), headers


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding") != "chunked":
        return await reader.readexactly(int(headers.get("content-length", "0")))
    body = b""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readexactly(2)
    return body
