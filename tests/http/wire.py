"""The wire: bytes as a client writes them that minds no rule, and what is answered until the other side closes."""

import json
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import urlsplit

from tests.support.caller import Caller
from tests.support.program import Program

SECONDS_MAX = 30
_STATUS = re.compile(rb"HTTP/1\.1 ([0-9]{3}) ")


def connected(program: Program) -> socket.socket:
    """A connection."""
    place = urlsplit(program.address)
    return socket.create_connection((place.hostname, place.port), timeout=SECONDS_MAX)


@contextmanager
def many(program: Program, count: int, sent: bytes) -> Iterator[Sequence[socket.socket]]:
    """So many connections, by each of which the same was sent."""
    with ExitStack() as stack:
        found = [stack.enter_context(connected(program)) for _ in range(count)]
        for one in found:
            one.sendall(sent)
        yield found


def talk(program: Program, sent: bytes, *, half_closed: bool = False) -> bytes:
    """All that is answered, until the other side closes."""
    with connected(program) as connection:
        connection.sendall(sent)
        if half_closed:
            connection.shutdown(socket.SHUT_WR)
        return read(connection)


def read(connection: socket.socket) -> bytes:
    """The bytes until the peer closes."""
    said = b""
    while some := connection.recv(65_536):
        said += some
    return said


def statuses(said: bytes) -> list[int]:
    """Of each answer."""
    return [int(status) for status in _STATUS.findall(said)]


def last(said: bytes) -> Any:
    """The body of the last answer, as JSON."""
    return json.loads(said.rpartition(b"\r\n\r\n")[2])


def head(caller: Caller, line: str = "GET /runs?limit=1", *headers: str, version: str = "1.1") -> bytes:
    """A head that could be served, and what else is in it; without its last line."""
    lines = [f"{line} HTTP/{version}", "Host: x", f"Authorization: Bearer {caller.key}", *headers]
    return "".join(f"{one}\r\n" for one in lines).encode("latin-1")


def whole(caller: Caller, line: str, body: bytes, *headers: str) -> bytes:
    """A request with a body of JSON."""
    more = ("Content-Type: application/json", f"Content-Length: {len(body)}", *headers)
    return head(caller, line, *more) + b"\r\n" + body
