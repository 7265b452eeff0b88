"""A message on its way: its call, its commands, its bytes as DATA wants them, and the id that it gets."""

import re

from msgspec import Struct

from channels.contract import Envelope, Verdict
from channels.shared.batch_calls import Calls
from channels.shared.mail.composer import Composed
from channels.smtp.connect import Features

_QUEUED_AS = re.compile(rb"(?:queued as|id=)\s*<?([A-Za-z0-9][A-Za-z0-9@._:/+-]{0,127})", re.IGNORECASE)
# As our composer writes it. A regular expression over the header would cost as much as the rest of a message's answer.
_MESSAGE_ID = b"\r\nMessage-ID: <"
HEADER_BYTES_SEARCHED = 16 * 1024
FINAL_DOT = b".\r\n"
# The end of a body is not handed over while the server may still refuse the rest, and no connection holds more than
# this twice.
PIECE_BYTES = 256 * 1024


class Work(Struct, eq=False):
    """One message on its way. `handed` says that its last byte may have left this process."""

    calls: Calls
    envelope: Envelope
    composed: Composed
    deadline: float = 0.0
    handed: bool = False

    def settle(self, verdict: Verdict) -> None:
        self.calls.settle(self.envelope, verdict)


def commands(composed: Composed, features: Features) -> tuple[bytes, bytes]:
    size = b" SIZE=%d" % len(composed.data) if features.size else b""
    body = b" BODY=8BITMIME" if composed.eight_bit and features.eight_bit else b""
    utf8 = b" SMTPUTF8" if composed.smtputf8 else b""
    mail = b"MAIL FROM:<%b>%b%b%b\r\n" % (composed.sender.encode(), size, body, utf8)
    return mail, b"RCPT TO:<%b>\r\n" % composed.recipient.encode()


def stuffed(data: bytes) -> bytes:
    """A body as DATA wants it: a dot more before each line's first dot. The final dot comes behind it."""
    if data.startswith(b"."):
        data = b"." + data
    return data.replace(b"\r\n.", b"\r\n..")


class Body:
    """A body in the pieces in which the connection takes it. Dots are stuffed piece by piece: in one go that would hold
    the event loop for 2 ms a megabyte."""

    def __init__(self, data: bytes, *, chunking: bool) -> None:
        self._data = data
        self._chunking = chunking
        self._at = 0

    @property
    def is_over(self) -> bool:
        return self._at >= len(self._data)

    def piece(self) -> bytes:
        """The next piece; the last one has the end of the body."""
        start, end = self._at, self._at + PIECE_BYTES
        self._at = end
        if self._chunking:
            return (b"BDAT %d LAST\r\n" % len(self._data) if start == 0 else b"") + self._data[start:end]
        if start == 0:
            piece = stuffed(self._data[:end])
        else:
            # A line's end may stand before this piece, and its dot in it.
            before = start - len(b"\r\n")
            piece = self._data[before:end].replace(b"\r\n.", b"\r\n..")[len(b"\r\n") :]
        return piece + FINAL_DOT if self.is_over else piece


def message_id(line: bytes, data: bytes) -> str:
    """The server's id of the message; its Message-ID where the server names none."""
    found = _QUEUED_AS.search(line)
    if found:
        return found[1].decode("ascii", "replace")
    start = data.find(_MESSAGE_ID, 0, HEADER_BYTES_SEARCHED)
    if start < 0:
        return ""
    start += len(_MESSAGE_ID)
    return data[start : data.find(b">", start)].decode("ascii", "replace")
