"""Lines: a stream of bytes cut into numbered lines, in batches of bounded size."""

from collections.abc import Iterator
from io import BufferedReader
from itertools import islice

from msgspec import Struct

# The largest delivery of the default limits has half of it.
LINE_BYTES_MAX = 1024 * 1024
# What is read at once: it bounds a batch's memory. A pipe gives what it has, without waiting for more.
CHUNK_BYTES = 1024 * 1024
BATCH_MAX = 1_000
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Line(Struct, frozen=True):
    """A line by its number, from 1; its content is None if it was too long."""

    number: int
    content: bytes | None

    def text(self) -> str:
        """Return the text of the line without its end. ValueError says why it cannot be read."""
        if self.content is None:
            raise ValueError(f"is longer than {LINE_BYTES_MAX} bytes")
        try:
            return self.content.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as fault:
            raise ValueError(f"is not UTF-8 at byte {fault.start + 1}") from fault


class Lines:
    """Reads a stream to its end. `bytes_read` is its position."""

    def __init__(self, source: BufferedReader) -> None:
        self._source = source
        self._number = 0
        self._begun = b""
        self._too_long = False
        self.bytes_read = 0

    def batches(self) -> Iterator[list[Line]]:
        """Yield the lines that have arrived, by the batch. Blank lines are counted and left out."""
        while chunk := self._source.read1(CHUNK_BYTES):
            self.bytes_read += len(chunk)
            *whole, rest = chunk.split(b"\n")
            yield from _batches(self._finished(whole))
            self._keep(rest)
        if self._begun or self._too_long:
            yield from _batches(self._finished([b""]))

    def _finished(self, pieces: list[bytes]) -> Iterator[Line]:
        for piece in pieces:
            self._keep(piece)
            content, self._begun = self._begun, b""
            too_long, self._too_long = self._too_long, False
            self._number += 1
            if self._number == 1:
                content = content.removeprefix(BYTE_ORDER_MARK)
            if too_long:
                yield Line(self._number, None)
            elif content.strip():
                yield Line(self._number, content)

    def _keep(self, piece: bytes) -> None:
        if self._too_long or len(self._begun) + len(piece) > LINE_BYTES_MAX:
            self._begun, self._too_long = b"", True
        else:
            self._begun += piece


def _batches(lines: Iterator[Line]) -> Iterator[list[Line]]:
    while batch := list(islice(lines, BATCH_MAX)):
        yield batch
