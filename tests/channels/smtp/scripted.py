"""A server that does what the test says: it answers each line by a function, and keeps what it was told."""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

Answer = Callable[[bytes], bytes | None]

GREETING = b"220 scripted.example ESMTP\r\n"
# From here on this connection is read and never answered.
SILENCE = b"silence"
EHLO = b"250-scripted.example\r\n250-PIPELINING\r\n250-SIZE 100000\r\n250-ENHANCEDSTATUSCODES\r\n250 8BITMIME\r\n"


class Scripted:
    """Listens on a free port. `answer` is asked for each line outside of a body, and for each body (`b"."`).

    None hangs up. Without an answer of its own (b"") a line gets the one of a server that takes everything.
    """

    def __init__(
        self,
        answer: Answer = lambda line: b"",
        ehlo: bytes = EHLO,
        greeting: bytes = GREETING,
        hangs_up_after: bytes = b"",
    ) -> None:
        self._answer = answer
        self._hangs_up_after = hangs_up_after
        self._ehlo = ehlo
        self._greeting = greeting
        self._server: asyncio.Server
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0
        self.connections = 0
        # What came in one piece, as the kernel handed it over; and every line; and every body.
        self.pieces: list[bytes] = []
        self.lines: list[bytes] = []
        self.bodies: list[bytes] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for writer in self._writers:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            writer.write(self._greeting)
            said: bytes | None = b""
            line = _Buffer(reader, self.pieces)
            while said is not None and said != SILENCE:
                said = await self._one(line, writer)
            while said is not None:
                await line.until(b"\r\n")
        except (ConnectionError, EOFError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _one(self, buffer: "_Buffer", writer: asyncio.StreamWriter) -> bytes | None:
        """Take one line, and the body that it brings; None hangs up."""
        line = await buffer.until(b"\r\n")
        self.lines.append(line)
        word, _, rest = line.partition(b" ")
        if word == b"BDAT":
            self.bodies.append(await buffer.exactly(int(rest.split()[0])))
        said = self._answer(line)
        if said is not None:
            said = said or {b"EHLO": self._ehlo, b"DATA": b"354 go on\r\n"}.get(word, b"250 2.0.0 ok\r\n")
            writer.write(b"" if said == SILENCE else said)
            if word == self._hangs_up_after:
                return None
        if word == b"DATA" and said is not None and said.startswith(b"354"):
            buffer.put_back(b"\r\n")
            body = await buffer.until(b"\r\n.\r\n")
            self.bodies.append(body[2:] + b"\r\n" if body else b"")
            said = self._answer(b".")
            if said is not None and said != SILENCE:
                writer.write(said or b"250 2.0.0 queued as B%d\r\n" % len(self.bodies))
        return said


class _Buffer:
    """What was read and not yet used; `pieces` gets what came in one go."""

    def __init__(self, reader: asyncio.StreamReader, pieces: list[bytes]) -> None:
        self._reader = reader
        self._pieces = pieces
        self._held = b""

    async def _more(self) -> None:
        piece = await self._reader.read(1 << 20)
        if not piece:
            raise EOFError
        self._pieces.append(piece)
        self._held += piece

    async def until(self, end: bytes) -> bytes:
        """Everything before `end`, which is taken too."""
        while end not in self._held:
            await self._more()
        found, _, self._held = self._held.partition(end)
        return found

    async def exactly(self, count: int) -> bytes:
        """So many bytes."""
        while len(self._held) < count:
            await self._more()
        found, self._held = self._held[:count], self._held[count:]
        return found

    def put_back(self, data: bytes) -> None:
        """Read this again."""
        self._held = data + self._held


def on(**answers: bytes | None) -> Answer:
    """Answers by the first word of a line; `DOT` is for the end of a body."""
    known = {name.encode(): said for name, said in answers.items()}

    def answer(line: bytes) -> bytes | None:
        word = b"DOT" if line == b"." else line.split(b" ", 1)[0].upper()
        return known.get(word, b"")

    return answer
