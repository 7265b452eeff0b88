"""The ledger: a provider as a process of its own, which stores each message that it accepts before it answers.

    python -m dispatcher.selftest.ledger --file PATH

prints one line, `{"port": N}`, and serves 127.0.0.1:N until it is ended. Requests are lines of JSON, any number at a
time: `{"key", "delivery_id", "attempt", "recipient", "body"}` is answered, in order, with one of

    {"accepted": id}      it is in the file
    {"refused": reason}   it never will be
    {"retry": reason}     not now
    {"throttled": s}      too fast

or, when `--drop` says so, it is in the file and the connection is closed. What happens to a message is drawn from the
seed, its key and its attempt: the same run, the same faults. `--requests PATH` writes each request that was judged into
a second file, with its time and what came of it.
"""

import argparse
import asyncio
import json
import signal
import sys
from collections import deque
from collections.abc import Callable
from hashlib import blake2b
from itertools import count
from pathlib import Path
from time import monotonic, time
from typing import Annotated, TypeVar, cast

import msgspec
import uvloop
from msgspec import Meta, Struct

from dispatcher.selftest.ledger_file import (
    Accepted,
    Again,
    Entry,
    LedgerFile,
    Request,
    RequestsFile,
    name_of,
    read_ledger,
)

__all__ = ["Entry", "Faults", "Ledger", "read_ledger"]

HOST = "127.0.0.1"
# Rendered parts have 1 MiB at most by default, and JSON makes up to six bytes of one.
REQUEST_BYTES_MAX = 8 * 1024 * 1024
# Keys are kept in memory, about 200 bytes each; past this the run is a mistake, and says so in each answer.
KEYS_MAX = 10_000_000
# Answers that wait for their time or for a slow reader; past this no further requests are read.
ANSWERS_MAX = 10_000
THROTTLE_SECONDS = 0.05
DELAY_MS_MAX = 600_000
# Two numbers in [0, 1) are made of one digest.
DIGEST_BYTES = 16
UNIT = float(1 << 64)


T = TypeVar("T", int, float)


class Faults(Struct, frozen=True):
    """Injected faults: probabilities per message, which exclude each other; an answer's delay comes on top."""

    seed: int = 0
    drop: float = 0.0
    refuse: float = 0.0
    throttle: float = 0.0
    retry: float = 0.0
    delay_ms_max: int = 0

    def any(self) -> bool:
        return bool(self.drop or self.refuse or self.throttle or self.retry or self.delay_ms_max)

    def draw(self, key: str, attempt: int, turn: int) -> tuple[str, float]:
        """The fault of a message, and the seconds that its answer waits."""
        text = f"{self.seed}:{key}:{attempt}:{turn}".encode()
        digest = blake2b(text, digest_size=DIGEST_BYTES).digest()
        point = int.from_bytes(digest[:8], "big") / UNIT
        delay = int.from_bytes(digest[8:], "big") / UNIT * self.delay_ms_max / 1_000
        for name in ("drop", "refuse", "throttle", "retry"):
            share: float = getattr(self, name)
            if point < share:
                return name, delay
            point -= share
        return "accept", delay


class _Request(Struct, frozen=True, gc=False):
    """One message. Recipient and body are read as a provider would, and dropped."""

    key: Annotated[str, Meta(min_length=1, max_length=1_024)]
    delivery_id: int
    attempt: int
    recipient: str
    body: msgspec.Raw


class _Reply(Struct, frozen=True, gc=False):
    """An answer after `wait` seconds; None closes the connection without one."""

    text: bytes | None
    wait: float = 0.0


_decode = msgspec.json.Decoder(_Request).decode

NOT_A_REQUEST = _Reply(b'{"refused":"not_a_request"}\n')
FULL = _Reply(b'{"refused":"full"}\n')
# The faults in which nothing is accepted.
ANSWERS = {
    "refuse": b'{"refused":"asked_for"}\n',
    "retry": b'{"retry":"asked_for"}\n',
    "throttle": b'{"throttled":%g}\n' % THROTTLE_SECONDS,
}


class Ledger:
    """The provider: it judges messages and stores what it accepts. `ended` has the error if it could not write."""

    def __init__(self, file: LedgerFile, faults: Faults, dedupe: bool, requests: RequestsFile | None = None) -> None:
        self._file = file
        self._requests = requests
        self._faults = faults if faults.any() else None
        self._dedupe = dedupe
        # How often a message was throttled: that uses up no attempt, so the same fault would be drawn for ever.
        self._turns: dict[tuple[str, int], int] = {}
        self.connections = count(1)
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    def take(self, requests: list[bytes], connection: int) -> list[_Reply]:
        """Judge requests in order, up to one that ends their connection; all accepted are written when this returns."""
        lines: list[Accepted | Again] = []
        replies: list[_Reply] = []
        for request in requests:
            reply = self._judge(request, lines, connection)
            replies.append(reply)
            if reply.text is None:
                break
        if lines:
            try:
                self._file.write(lines)
            except OSError as error:
                if not self.ended.done():
                    self.ended.set_exception(error)
                return [_Reply(None)]
        return replies

    def _judge(self, request: bytes, lines: list[Accepted | Again], connection: int) -> _Reply:
        try:
            asked = _decode(request)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return NOT_A_REQUEST
        fault, wait = self._draw(asked)
        known = self._file.ids.get(asked.key) if self._dedupe else None
        if known is not None and fault != "drop":
            # What was accepted can be neither refused nor put off.
            fault = "accept"
        if self._requests is not None:
            self._requests.write(Request(asked.key, asked.attempt, fault, time(), connection))
        if known is not None:
            lines.append(Again(asked.key))
            return _Reply(None if fault == "drop" else _accepted(known), wait)
        if answer := ANSWERS.get(fault):
            return _Reply(answer, wait)
        if len(self._file.ids) >= KEYS_MAX:
            return FULL
        self._file.sequence += 1
        name = name_of(self._file.sequence)
        self._file.ids.setdefault(asked.key, name)
        lines.append(Accepted(asked.key, asked.delivery_id, asked.attempt, self._file.sequence, monotonic()))
        return _Reply(None if fault == "drop" else _accepted(name), wait)

    def _draw(self, asked: _Request) -> tuple[str, float]:
        if self._faults is None:
            return "accept", 0.0
        which = asked.key, asked.attempt
        turn = self._turns.pop(which, 0)
        fault, wait = self._faults.draw(*which, turn)
        if fault == "throttle":
            self._turns[which] = turn + 1
        return fault, wait


def _accepted(name: str) -> bytes:
    return b'{"accepted":"%s"}\n' % name.encode()


class LedgerConnection(asyncio.Protocol):
    """One connection to the ledger: requests in, answers out in the same order, each not before its time."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._number = next(ledger.connections)
        self._transport: asyncio.Transport
        self._pieces: list[bytes] = []
        self._piece_bytes = 0
        self._due: deque[tuple[float, bytes | None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._slow_reader = False
        self._closing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Streams get no other kind; uvloop's do not inherit from it.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._pieces.append(data)
        self._piece_bytes += len(data)
        if b"\n" in data:
            *requests, rest = b"".join(self._pieces).split(b"\n")
            self._pieces, self._piece_bytes = [rest], len(rest)
            now = monotonic()
            replies = self._ledger.take(requests, self._number)
            self._due += [(now + reply.wait, reply.text) for reply in replies]
            self._closing = any(reply.text is None for reply in replies)
            self._answer()
        if self._piece_bytes > REQUEST_BYTES_MAX:
            self._transport.abort()

    def _answer(self) -> None:
        """Send the answers that are due, and schedule the rest."""
        ready: list[bytes] = []
        now = monotonic()
        while self._due and self._due[0][0] <= now:
            text = self._due.popleft()[1]
            if text is None:
                self._due.clear()
                self._transport.write(b"".join(ready))
                self._transport.close()
                return
            ready.append(text)
        if ready:
            self._transport.write(b"".join(ready))
        if self._due and self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._due[0][0] - now, self._later)
        self._read_on()

    def _later(self) -> None:
        self._timer = None
        self._answer()

    def _read_on(self) -> None:
        if self._transport.is_closing():
            return
        if self._closing or self._slow_reader or len(self._due) > ANSWERS_MAX:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def pause_writing(self) -> None:
        self._slow_reader = True
        self._read_on()

    def resume_writing(self) -> None:
        self._slow_reader = False
        self._read_on()

    def connection_lost(self, _exc: Exception | None) -> None:
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()


def _bounded(kind: type[T], most: int) -> Callable[[str], T]:
    def parse(text: str) -> T:
        number = kind(text)
        if not 0 <= number <= most:
            raise ValueError
        return number

    return parse


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m dispatcher.selftest.ledger", description=__doc__)
    parser.add_argument("--file", type=Path, required=True, help="of accepted messages; continued if it exists")
    parser.add_argument("--requests", type=Path, help="a line for each request: its key, attempt, fault and time")
    parser.add_argument("--port", type=int, default=0, help="0 picks a free one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dedupe", action="store_true", help="answer a known key with its first id")
    parser.add_argument("--delay-ms-max", type=_bounded(int, DELAY_MS_MAX), default=0, metavar="MS")
    for name, words in {
        "drop": "accept, then close without an answer",
        "refuse": "refuse for good",
        "throttle": "say that it is too fast",
        "retry": "say that it may be tried later",
    }.items():
        parser.add_argument(
            f"--{name}", type=_bounded(float, 1), default=0.0, metavar="P", help=f"probability: {words}"
        )
    found = parser.parse_args()
    if found.drop + found.refuse + found.throttle + found.retry > 1:
        parser.error("the probabilities exclude each other: together they are at most 1")
    return found


async def _serve(wanted: argparse.Namespace) -> None:
    faults = Faults(wanted.seed, wanted.drop, wanted.refuse, wanted.throttle, wanted.retry, wanted.delay_ms_max)
    file = LedgerFile(wanted.file)
    requests = RequestsFile(wanted.requests) if wanted.requests else None
    ledger = Ledger(file, faults, wanted.dedupe, requests)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ledger.end)
    server = await loop.create_server(lambda: LedgerConnection(ledger), HOST, wanted.port)
    sys.stdout.write(json.dumps({"port": server.sockets[0].getsockname()[1]}) + "\n")
    sys.stdout.flush()
    try:
        await ledger.ended
    finally:
        server.close()
        file.close()
        if requests is not None:
            requests.close()


if __name__ == "__main__":
    uvloop.run(_serve(_arguments()))
