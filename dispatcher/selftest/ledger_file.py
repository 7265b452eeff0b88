"""The ledger's files: of accepted messages, with a line for each repeated one, and of all requests."""

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

# A line has about 150 bytes; a key may have some hundred.
LINE_BYTES_MAX = 64 * 1024


class Accepted(Struct, frozen=True, gc=False):
    """A message that was accepted: `sequence` counts from 1, `at` is this machine's monotonic time."""

    key: str
    delivery_id: int
    attempt: int
    sequence: int
    at: float


class Again(Struct, frozen=True, gc=False):
    """A key that was requested again after it had been accepted, and was not accepted again."""

    again: str


class Request(Struct, frozen=True, gc=False):
    """A request that was judged: `fault` is `accept` or what was injected, `at` is in seconds since 1970.
    `connection` counts from 1: one that ends by `drop` may take along answers that were sent before."""

    key: str
    attempt: int
    fault: str
    at: float
    connection: int = 0


class Entry(Struct):
    """The entries of the file about one key."""

    delivery_id: int = 0
    accepted: int = 0
    again: int = 0
    first_attempt: int = 0
    last_attempt: int = 0
    first_sequence: int = 0
    first_at: float = 0.0


class _Line(Struct, frozen=True, gc=False):
    """An Accepted or an Again."""

    key: str | None = None
    delivery_id: int = 0
    attempt: int = 0
    sequence: int = 0
    at: float = 0.0
    again: str | None = None


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Line).decode


class LedgerFile:
    """The file, open for writing. It continues one that exists, but for a last line that was cut off."""

    def __init__(self, path: Path) -> None:
        _cut_torn_line(path)
        self.ids: dict[str, str] = {}
        self.sequence = 0
        for line in _lines(path):
            if line.key is not None:
                self.sequence = line.sequence
                self.ids.setdefault(line.key, name_of(line.sequence))
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, lines: list[Accepted | Again]) -> None:
        """Append lines, all at once. When this returns a kill of this process loses none of them."""
        data = b"".join(_encode(line) + b"\n" for line in lines)
        written = os.write(self._descriptor, data)
        if written != len(data):
            raise OSError(f"only {written} of {len(data)} bytes could be written")

    def close(self) -> None:
        os.close(self._descriptor)


class RequestsFile:
    """The file of requests, open for writing. Unbuffered: a kill of this process loses none."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)

    def write(self, request: Request) -> None:
        self._file.write(_encode(request) + b"\n")

    def close(self) -> None:
        self._file.close()


def read_requests(path: Path) -> list[Request]:
    """Return the requests of a file, in the order of their arrival."""
    decode = msgspec.json.Decoder(Request).decode
    with path.open("rb") as file:
        return [decode(line) for line in file]


def name_of(sequence: int) -> str:
    return f"ledger-{sequence}"


def read_ledger(path: Path) -> dict[str, Entry]:
    """Return what the file says about each key. Its last line may be incomplete."""
    entries: dict[str, Entry] = {}
    for line in _lines(path):
        entry = entries.setdefault(line.key or line.again or "", Entry())
        if line.key is None:
            entry.again += 1
            continue
        if not entry.accepted:
            entry.delivery_id = line.delivery_id
            entry.first_attempt = line.attempt
            entry.first_sequence = line.sequence
            entry.first_at = line.at
        entry.accepted += 1
        entry.last_attempt = line.attempt
    return entries


def _lines(path: Path) -> Iterator[_Line]:
    """Yield every whole line. Raises ValueError for a line of another form, except for an incomplete last one."""
    if not path.exists():
        return
    with path.open("rb") as file:
        number = 0
        while raw := file.readline(LINE_BYTES_MAX):
            number += 1
            if not raw.endswith(b"\n") and len(raw) < LINE_BYTES_MAX:
                return
            try:
                line = _decode(raw)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise ValueError(f"{path}, line {number}: not a line of a ledger") from error
            if (line.key is None) == (line.again is None):
                raise ValueError(f"{path}, line {number}: neither accepted nor asked for again")
            yield line


def _cut_torn_line(path: Path) -> None:
    """Remove an incomplete last line: it was never answered."""
    if not path.exists():
        return
    if not path.is_file():
        raise ValueError(f"{path} is not a regular file")
    with path.open("rb+") as file:
        end = file.seek(0, os.SEEK_END)
        start = max(0, end - LINE_BYTES_MAX)
        file.seek(start)
        file.truncate(start + file.read().rfind(b"\n") + 1)
