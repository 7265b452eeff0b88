"""Followers of a connection: they recognise when a request has been answered completely.

A follower is given what passes in both directions. `up` yields the text of each request that does something as it
passes; meanwhile `asked` is what `answered` will be when that request was answered. With as many answers as requests
nothing is under way. Anything but the expected protocol (TLS, say) makes a follower `lost`: it follows nothing more.
"""

from collections.abc import Iterator
from typing import Literal

ProtocolName = Literal["postgres", "lines"]

# Of each message only this much is looked at: names, and the SQL text as far as a test would search in it.
HEAD_BYTES_MAX = 64 * 1024
# Prepared statements of a connection whose text is remembered; asyncpg itself keeps 100.
STATEMENTS_MAX = 10_000
# What Postgres allows in one message; more is another protocol.
MESSAGE_BYTES_MAX = 1 << 30

LENGTH_BYTES = 4
PROTOCOL_3 = 3
SSL_REQUEST, GSS_REQUEST = 80_877_103, 80_877_104


def follow(protocol: ProtocolName) -> "LineFollower | PostgresFollower":
    return PostgresFollower() if protocol == "postgres" else LineFollower()


class LineFollower:
    """The line protocol: a request is a line, its answer is a line."""

    def __init__(self) -> None:
        self.asked = self.answered = 0
        self.lost = False
        self._rest = b""

    def up(self, data: bytes) -> Iterator[bytes]:
        *lines, rest = data.split(b"\n")
        for line in lines:
            text, self._rest = self._rest + line, b""
            self.asked += 1
            yield text
        self._rest = (self._rest + rest)[:HEAD_BYTES_MAX]

    def down(self, data: bytes) -> None:
        self.answered += data.count(b"\n")


class _Frames:
    """Cuts one direction of a Postgres connection into messages, across whatever pieces it arrives in."""

    def __init__(self, typed: bool, head_bytes_max: int) -> None:
        self.typed = typed
        self._head_bytes_max = head_bytes_max
        self.lost = False
        self._header = b""
        self._head = b""
        self._left = 0

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The kind of each message that ends here, and the head of its content. Untyped ones have an empty kind."""
        at = 0
        while at < len(data) and not self.lost:
            if not self._left:
                at = self._begin(data, at)
            if self._left:
                piece = min(self._left, len(data) - at)
                wanted = min(piece, self._head_bytes_max - len(self._head))
                if wanted > 0:
                    self._head += data[at : at + wanted]
                self._left -= piece
                at += piece
            if not self._left and len(self._header) == self._header_bytes and not self.lost:
                kind, head = self._header[:-LENGTH_BYTES], self._head
                self._header = self._head = b""
                yield kind, head

    @property
    def _header_bytes(self) -> int:
        return LENGTH_BYTES + self.typed

    def _begin(self, data: bytes, at: int) -> int:
        """Complete the header; returns where the content begins."""
        end = at + self._header_bytes - len(self._header)
        self._header += data[at:end]
        if len(self._header) == self._header_bytes:
            length = int.from_bytes(self._header[-LENGTH_BYTES:], "big") - LENGTH_BYTES
            self.lost = not 0 <= length <= MESSAGE_BYTES_MAX
            self._left = 0 if self.lost else length
        return min(end, len(data))


class PostgresFollower:
    """Version 3 of the protocol: each Sync, simple query or start-up ends with one ReadyForQuery."""

    def __init__(self) -> None:
        self.asked = self.answered = 0
        self._up = _Frames(typed=False, head_bytes_max=HEAD_BYTES_MAX)
        self._down = _Frames(typed=True, head_bytes_max=0)
        self._statements: dict[bytes, bytes] = {}
        self._bound = b""
        # The answer of one byte to a request for TLS.
        self._bare_bytes = 0

    @property
    def lost(self) -> bool:
        return self._up.lost or self._down.lost

    def up(self, data: bytes) -> Iterator[bytes]:
        for kind, head in self._up.feed(data):
            match kind:
                case b"":
                    self._start(head)
                case b"P":
                    self._parse(head)
                case b"B":
                    # Portal, then statement.
                    self._bound = self._statements.get(head.split(b"\0", 2)[1], b"") if head.count(b"\0") > 1 else b""
                case b"S":
                    self.asked += 1
                case b"E":
                    # Its ReadyForQuery comes with the Sync behind it.
                    self.asked += 1
                    yield self._bound
                    self.asked -= 1
                case b"Q":
                    self.asked += 1
                    yield head
                case _:
                    # The others begin no answer of their own.
                    pass

    def down(self, data: bytes) -> None:
        if self._bare_bytes and data:
            self._bare_bytes = 0
            if data[:1] != b"N":
                self._down.lost = True
            data = data[1:]
        for kind, _ in self._down.feed(data):
            if kind == b"Z":
                self.answered += 1

    def _start(self, head: bytes) -> None:
        code = int.from_bytes(head[:LENGTH_BYTES], "big")
        if code in (SSL_REQUEST, GSS_REQUEST):
            self._bare_bytes = 1
        elif code >> 16 == PROTOCOL_3:
            self._up.typed = True
            self.asked += 1
        else:
            # A cancel request, or another protocol.
            self._up.lost = True

    def _parse(self, head: bytes) -> None:
        name, _, rest = head.partition(b"\0")
        if len(self._statements) >= STATEMENTS_MAX:
            self._statements.clear()
        self._statements[name] = rest.partition(b"\0")[0]
