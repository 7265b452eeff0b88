"""Sweeping: each thing that a connection may wait for has its end, and none of them comes before it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
import uvicorn
from msgspec import Struct
from uvicorn.server import ServerState

from dispatcher.http.server.connections import (
    ANSWER_SECONDS_MAX,
    BODY_SECONDS_MAX,
    KEEP_ALIVE_SECONDS,
    LINGER_SECONDS,
    Connection,
)

Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]
# More than a socket takes of what its other side does not read.
LARGE = 32 * 1024 * 1024
HEAD = b"POST /x HTTP/1.1\r\nhost: here\r\ncontent-length: 10\r\n\r\n"


class _App:
    """Answers as it is told to, and says when it has."""

    def __init__(self, *, reads: bool, size: int) -> None:
        self._reads = reads
        self._size = size
        self.began, self.answered = asyncio.Event(), asyncio.Event()

    async def __call__(self, _scope: object, receive: Receive, send: Send) -> None:
        self.began.set()
        more = self._reads
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            more = message["more_body"]
        length = (b"content-length", b"%d" % self._size)
        await send({"type": "http.response.start", "status": 200, "headers": [length]})
        await send({"type": "http.response.body", "body": b"x" * self._size})
        self.answered.set()


class _Told:
    """A transport that tells how it is ended. (uvloop calls one closing whose writing side is closed.)"""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.ended: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def abort(self) -> None:
        self.ended.append("aborted")
        self._transport.abort()

    def close(self) -> None:
        self.ended.append("closed")
        self._transport.close()


@asynccontextmanager
async def _connected(app: _App) -> AsyncIterator[tuple[Connection, asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection as the server has it, and its other side."""
    config = uvicorn.Config(cast("Any", app), log_config=None, ws="none", lifespan="off")
    config.load()
    loop = asyncio.get_running_loop()
    made: asyncio.Future[Connection] = loop.create_future()
    lost = asyncio.Event()

    class Ours(Connection):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
            super().connection_made(transport)
            made.set_result(self)

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            lost.set()

    async with await loop.create_server(lambda: Ours(config, ServerState(), {}), "127.0.0.1", 0) as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        try:
            yield await made, reader, writer
        finally:
            writer.transport.abort()
            await lost.wait()


class _Case(Struct, frozen=True):
    """What is sent, what is answered, what is waited for before it is swept, and how long that may take."""

    sent: bytes
    seconds: float
    reads: bool = False
    size: int = 2
    # The end of what the other side reads.
    read: bytes = b""
    end: str = "aborted"
    waits: str = "answered"


CASES = {
    "a body that stops": _Case(HEAD + b"x", BODY_SECONDS_MAX, reads=True, waits="began"),
    "the rest of a body that is answered": _Case(HEAD + b"x", LINGER_SECONDS),
    "an answer that nobody takes": _Case(b"GET /x HTTP/1.1\r\nhost: here\r\n\r\n", ANSWER_SECONDS_MAX, size=LARGE),
    "somebody who was refused": _Case(b"nonsense\r\n\r\n", LINGER_SECONDS, read=b"}", waits=""),
    "another request": _Case(b"GET /x HTTP/1.1\r\nhost: here\r\n\r\n", KEEP_ALIVE_SECONDS, read=b"xx", end="closed"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_a_wait_ends_at_its_timeout(case: _Case) -> None:
    app = _App(reads=case.reads, size=case.size)
    async with _connected(app) as (connection, reader, writer):
        writer.write(case.sent)
        if case.waits:
            await getattr(app, case.waits).wait()
        if case.read:
            await reader.readuntil(case.read)
        told = _Told(connection.transport)
        connection.transport = cast("asyncio.Transport", told)
        connection.sweep(connection.since + case.seconds - 0.5)
        assert told.ended == []
        connection.sweep(connection.since + case.seconds + 0.5)
        assert told.ended == [case.end]
