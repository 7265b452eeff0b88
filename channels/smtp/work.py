"""One message on its way: its call, its bytes as DATA wants them, and what it is called afterwards."""

import re

from channels.calls import Calls
from channels.contract import Envelope, Verdict
from channels.mail.composer import Composed

_QUEUED_AS = re.compile(rb"(?:queued as|id=)\s*<?([A-Za-z0-9][A-Za-z0-9@._:/+-]{0,127})", re.IGNORECASE)
_MESSAGE_ID = re.compile(rb"^Message-ID:\s*<([^<>\s]{1,250})>", re.IGNORECASE | re.MULTILINE)
HEADER_BYTES_SEARCHED = 16 * 1024


class Work:
    """One message on its way. `handed` says that its last byte may have left this process."""

    __slots__ = ("calls", "composed", "deadline", "envelope", "handed")

    def __init__(self, calls: Calls, envelope: Envelope, composed: Composed) -> None:
        self.calls = calls
        self.envelope = envelope
        self.composed = composed
        self.deadline = 0.0
        self.handed = False

    def settle(self, verdict: Verdict) -> None:
        """Its verdict."""
        self.calls.settle(self.envelope, verdict)


def stuffed(data: bytes) -> bytes:
    """A body as DATA wants it: a dot more before each line's first dot, and the final dot."""
    if data.startswith(b"."):
        data = b"." + data
    return data.replace(b"\r\n.", b"\r\n..") + b".\r\n"


def message_id(lines: list[bytes], data: bytes) -> str:
    """What the server calls the message; its Message-ID where the server gives it no name."""
    found = _QUEUED_AS.search(lines[-1]) or _MESSAGE_ID.search(data, 0, HEADER_BYTES_SEARCHED)
    return found[1].decode("ascii", "replace") if found else ""
