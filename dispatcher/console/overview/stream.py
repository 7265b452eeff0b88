"""The live stream: server-sent events with the parts of the overview that have changed."""

import asyncio

from litestar.types import Receive, Scope, Send

from dispatcher.base.errors import CallLost
from dispatcher.console.overview.board import Board, event
from dispatcher.console.visit import HEADERS
from dispatcher.db.database import PASSING
from dispatcher.http.problems import Problem

TICK_SECONDS = 1.0
# A browser then connects again by itself, which looks its key up again.
STREAM_SECONDS_MAX = 55.0
RETRY_MILLISECONDS = 1_000
STREAMS_MAX = 100
AWAY: tuple[type[Exception], ...] = (CallLost, TimeoutError, *PASSING)


class Streams:
    """The open streams of one process."""

    def __init__(self) -> None:
        self.open = 0

    def stream(self, board: Board, *, waits: bool) -> "Stream":
        """Return a stream of a board. With `waits` it says only that there is something to show."""
        return Stream(self, board, waits=waits)


class Stream:
    """One open page."""

    def __init__(self, streams: Streams, board: Board, *, waits: bool) -> None:
        self._streams = streams
        self._board = board
        self._waits = waits
        # The number of the look that was sent last.
        self._seen = 0

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        if self._streams.open >= STREAMS_MAX:
            await _refuse(send)
            return
        self._streams.open += 1
        gone = asyncio.create_task(_gone(receive))
        try:
            await self._begin(send)
            async with asyncio.timeout(STREAM_SECONDS_MAX):
                while not gone.done():
                    await self._tick(send)
                    await asyncio.wait((gone,), timeout=TICK_SECONDS)
        except TimeoutError:
            pass
        finally:
            self._streams.open -= 1
            gone.cancel()
        if not gone.done() or gone.cancelled():
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _begin(self, send: Send) -> None:
        fields = HEADERS | {"content-type": "text/event-stream; charset=utf-8", "x-accel-buffering": "no"}
        headers = [(name.encode(), value.encode()) for name, value in fields.items()]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send(send, f"retry: {RETRY_MILLISECONDS}\n\n".encode())

    async def _tick(self, send: Send) -> None:
        try:
            drawn = await self._board.look()
        except Problem as problem:
            await self._send(send, event("trouble", problem.detail))
            return
        except AWAY:
            await self._send(send, event("trouble", "the database does not answer"))
            return
        if self._waits:
            await self._send(send, event("arrived", True) if drawn.figures.has_ended else event("live", {}))
        elif drawn.number != self._seen:
            follows = drawn.number == self._seen + 1 and self._seen
            self._seen = drawn.number
            await self._send(send, drawn.changed if follows else drawn.whole)

    async def _send(self, send: Send, content: bytes) -> None:
        await send({"type": "http.response.body", "body": content, "more_body": True})


async def _gone(receive: Receive) -> None:
    """Return when the browser has closed its end."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _refuse(send: Send) -> None:
    headers = [(b"retry-after", b"5"), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": b"", "more_body": False})
