"""A connection to the ledger: requests go out one behind the other, and answers come back in that order."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Annotated, cast

import msgspec
from msgspec import Meta, Struct

from channels.contract import Accepted, Envelope, Refused, RetryAfter, Throttled, Unknown, Verdict
from channels.shared.batch_calls import Calls

# What is on its way in one connection: a lost one makes that many unknown, and 1,000 hide a round trip of 20 ms at
# 50,000 a second.
UNANSWERED_MAX = 1_000
# One answer: an id or a reason. The rest is room for longer ones.
ANSWER_BYTES_MAX = 64 * 1024
# Bytes that may wait in this process for a provider that reads slowly.
WRITE_BYTES_MAX = 1024 * 1024

# Reasons are words of a protocol. A text of any other kind could repeat a recipient, and is not passed on.
REASONS = frozenset({"asked_for", "content", "full", "not_a_request", "recipient", "too_large"})

Wait = Annotated[float, Meta(ge=0, le=86_400)]
Reason = Annotated[str, Meta(max_length=1_024)]


class _Answer(Struct, frozen=True, gc=False):
    """Exactly one of the first four says how it went; `seconds` belongs to `retry`."""

    accepted: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    refused: Reason | None = None
    throttled: Wait | None = None
    retry: Reason | None = None
    seconds: Wait | None = None


_decode = msgspec.json.Decoder(_Answer).decode


class Connection(asyncio.Protocol):
    """One connection. `changed` is called whenever it may have got room, or is gone."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._transport: asyncio.Transport
        self._unanswered: deque[tuple[Calls, Envelope]] = deque()
        self._rest = b""
        self._paused = False
        self.retired = False
        self.gone = asyncio.Event()

    @property
    def open(self) -> bool:
        """Whether a call may begin on it, now or when it has room."""
        return not self.retired and not self.gone.is_set() and not self._transport.is_closing()

    @property
    def room(self) -> bool:
        return self.open and not self._paused and len(self._unanswered) < UNANSWERED_MAX

    @property
    def load(self) -> int:
        return len(self._unanswered)

    @property
    def abandoned(self) -> bool:
        """Whether an answer is under way to a batch that was given up."""
        return any(calls.given_up for calls, _ in self._unanswered)

    def send(self, request: bytes, calls: Calls, envelope: Envelope) -> None:
        """Begin a call. From here on only an answer can say how it went."""
        self._unanswered.append((calls, envelope))
        calls.begin()
        self._transport.write(request)

    def retire(self) -> None:
        """Take no further calls. Those of other batches may still be answered; with the last one it closes."""
        self.retired = True
        self._close_if_spent()
        self._changed()

    def abort(self) -> None:
        self._transport.abort()

    def _close_if_spent(self) -> None:
        if self.retired and all(calls.given_up for calls, _ in self._unanswered):
            self.abort()

    # What the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Streams get no other kind; uvloop's do not inherit from it.
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_BYTES_MAX)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._changed()

    def data_received(self, data: bytes) -> None:
        *answers, self._rest = (self._rest + data).split(b"\n")
        for answer in answers:
            if not self._take(answer):
                break
        if len(self._rest) > ANSWER_BYTES_MAX:
            self.abort()
        self._close_if_spent()
        self._changed()

    def _take(self, answer: bytes) -> bool:
        """Match one answer with the call that waits longest. False where it cannot belong to a call."""
        verdict = verdict_of(answer)
        if not self._unanswered or verdict is None:
            # What comes behind it cannot be trusted to be the answer to what it seems to be.
            self.abort()
            return False
        calls, envelope = self._unanswered.popleft()
        calls.settle(envelope, verdict)
        return True

    def connection_lost(self, _exc: Exception | None) -> None:
        self.gone.set()
        while self._unanswered:
            calls, envelope = self._unanswered.popleft()
            calls.settle(envelope, Unknown("the connection was lost before the answer"))
        self._changed()


def verdict_of(answer: bytes) -> Verdict | None:
    """The content of an answer; None for an invalid one."""
    try:
        said = _decode(answer)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    match said:
        case _Answer(accepted=str(name), refused=None, throttled=None, retry=None):
            return Accepted(name)
        case _Answer(accepted=None, refused=str(reason), throttled=None, retry=None):
            return Refused(_words(reason))
        case _Answer(accepted=None, refused=None, throttled=float(seconds), retry=None):
            return Throttled(seconds)
        case _Answer(accepted=None, refused=None, throttled=None, retry=str(reason)):
            return RetryAfter(_words(reason), said.seconds)
        case _:
            return None


def _words(reason: str) -> str:
    return f"the ledger says: {reason}" if reason in REASONS else "the ledger gave a reason of its own"
