"""The load: requests over kept connections, each sent when the one before it was answered, from a process of its own.

A plain protocol, and no client library: on two cores what the load costs is missing where it is measured.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import islice
from typing import Literal, cast
from urllib.parse import urlsplit

import msgspec
import uvloop
from msgspec import Struct

from bench.measure import BenchError, percentile
from bench.process import ROOT

Kind = Literal["triggers", "deliveries"]
SECONDS_MAX = 300.0
_HEAD = b"\r\n\r\n"
_LENGTH = b"content-length: "


class Load(Struct, frozen=True):
    """The request of a load, its rate and its number of connections."""

    address: str
    path: str
    key: str
    kind: Kind
    requests: int
    connections: int
    # What keys begin with, and how many deliveries a request has.
    name: str = "load"
    batch: int = 1
    # When deliveries are due; without it, at once.
    due: str | None = None


class Answered(Struct, frozen=True):
    """How it went: the seconds from the first request to the last answer, and the time of single ones."""

    seconds: float
    p50_seconds: float
    p99_seconds: float
    refused: int
    # What the last one of those was told.
    why: str = ""


def bodies(load: Load) -> Iterator[bytes]:
    """The requests' bodies, each with keys of its own."""
    made = 0
    while True:
        if load.kind == "triggers":
            yield (
                b'{"input":{"name":"Ann","email":"ann@example.org","phone":"+4915112345678"},"idempotency_key":"%b-%d"}'
                % (load.name.encode(), made)
            )
            made += 1
        else:
            one = (
                b'{"idempotency_key":"%b-%d","channel":"sms","recipient":"+4915112345678",'
                b'"template":{"body":"Hi {{ name }}, your order {{ order }} ships."},'
                b'"variables":{"name":"Ann","order":"A-%d"}'
            ) + (b"}" if load.due is None else b',"scheduled_for":"%b"}' % load.due.encode())
            name = load.name.encode()
            yield b'{"deliveries":[%b]}' % b",".join(one % (name, n, n) for n in range(made, made + load.batch))
            made += load.batch


class _Connection(asyncio.Protocol):
    """One connection: the next request when the last one was answered."""

    def __init__(self, ask: Callable[[], bytes | None], told: Callable[[float, int, bytes], None]) -> None:
        self._ask = ask
        self._told = told
        self._transport: asyncio.Transport | None = None
        self._read = b""
        self._began = 0.0
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transport does not inherit from it.
        self._transport = cast("asyncio.Transport", transport)
        self._next()

    def _next(self) -> None:
        assert self._transport is not None  # noqa: S101 - it is connected
        request = self._ask()
        if request is None:
            self._transport.close()
            return
        self._began = time.perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._read += data
        end = self._read.find(_HEAD)
        if end < 0:
            return
        begin = self._read.lower().find(_LENGTH, 0, end)
        length = int(self._read[begin + len(_LENGTH) : self._read.find(b"\r\n", begin)])
        if len(self._read) < end + len(_HEAD) + length:
            return
        self._told(time.perf_counter() - self._began, int(self._read[9:12]), self._read)
        self._read = b""
        self._next()

    def connection_lost(self, _why: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


async def drive(load: Load) -> Answered:
    """Send it all."""
    place = urlsplit(load.address)
    head = (
        f"POST {load.path} HTTP/1.1\r\nhost: {place.netloc}\r\nauthorization: Bearer {load.key}\r\n"
        "content-type: application/json\r\ncontent-length: "
    ).encode()
    given = islice(bodies(load), load.requests)
    times, refused, why = list[float](), 0, b""

    def ask() -> bytes | None:
        body = next(given, None)
        return None if body is None else b"%b%d\r\n\r\n%b" % (head, len(body), body)

    def told(seconds: float, status: int, answer: bytes) -> None:
        nonlocal refused, why
        times.append(seconds)
        if status >= 300:  # noqa: PLR2004 - as HTTP says
            refused, why = refused + 1, answer

    loop = asyncio.get_running_loop()
    began = time.perf_counter()
    made = [
        (await loop.create_connection(lambda: _Connection(ask, told), place.hostname or "", place.port or 80))[1]
        for _ in range(load.connections)
    ]
    await asyncio.gather(*(one.ended for one in made))
    if len(times) != load.requests:
        raise BenchError(f"{len(times)} of {load.requests} requests were answered")
    seconds = time.perf_counter() - began
    return Answered(seconds, percentile(times, 0.5), percentile(times, 0.99), refused, why.decode(errors="replace"))


async def _sender(load: Load) -> asyncio.subprocess.Process:
    """A process that sends it."""
    sender = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.load",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    assert sender.stdin is not None  # noqa: S101 - it was started with a pipe
    sender.stdin.write(msgspec.json.encode(load))
    sender.stdin.close()
    return sender


async def apply(load: Load) -> Answered:
    """Have it sent, all of it."""
    sender = await _sender(load)
    try:
        async with asyncio.timeout(SECONDS_MAX):
            said, trouble = await sender.communicate()
    finally:
        await _end(sender)
    if sender.returncode:
        raise BenchError(f"the load failed: {trouble.decode(errors='replace')[-400:]}")
    answered = msgspec.json.decode(said, type=Answered)
    if answered.refused:
        raise BenchError(f"{answered.refused} of {load.requests} requests were refused: {answered.why[-400:]}")
    return answered


@asynccontextmanager
async def loading(load: Load) -> AsyncIterator[None]:
    """Have it sent meanwhile, without an end. It is under way when the block begins, and has to be when that ends."""
    await apply(msgspec.structs.replace(load, name="first"))
    sender = await _sender(msgspec.structs.replace(load, requests=sys.maxsize))
    try:
        yield
        if sender.returncode is not None:
            raise BenchError("the load ended by itself")
    finally:
        await _end(sender)


async def _end(sender: asyncio.subprocess.Process) -> None:
    if sender.returncode is None:
        sender.kill()
    await sender.wait()


if __name__ == "__main__":
    print(msgspec.json.encode(uvloop.run(drive(msgspec.json.decode(sys.stdin.buffer.read(), type=Load)))).decode())
