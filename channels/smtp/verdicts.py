"""The verdict of a refusal or a lost connection: from its phase, its code and its words."""

from collections.abc import Iterable
from enum import Enum

from channels.contract import NotCalled, Refused, RetryAfter, Throttled, Unknown, Verdict
from channels.smtp.server_replies import enhanced_code, reply_text

# Permanent, and about the address itself: nothing that is sent to it will ever arrive.
BAD_ADDRESSES = frozenset({"5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10"})
TOO_MUCH = frozenset({b"421", b"450", b"451", b"452"})
# About one mailbox: that it is full, or busy, says nothing about its neighbours.
ONE_MAILBOX = ("4.1.", "4.2.")
POLICY = "4.7."
TRANSIENT = ord("4")
NO_LOGIN = b"530"

# What a person can do about it, by code or by enhanced code, the latter first.
HINTS = {
    "5.1.7": "change the sender: option `from`",
    "5.1.8": "change the sender: option `from`, or `return_path`",
    "5.3.4": "the message is too large for the server: make it smaller",
    "5.7.0": "the server wants a login or TLS: see `username`, `password` and `tls` in the channel's options",
    "530": "the server wants a login or TLS: see `username`, `password` and `tls` in the channel's options",
    "552": "the message may be too large for the server: make it smaller",
}


class Step(Enum):
    """A command to the server; the value is its name in a reason."""

    RSET = "RSET"
    MAIL = "MAIL"
    RCPT = "RCPT"
    DATA = "DATA"
    DOT = "the final dot"
    # A dot behind a refused recipient: nothing arrives with it.
    EMPTY = "an empty message"
    NOOP = "NOOP"


def judge(step: Step, lines: list[bytes], recipient: str, domain: str, throttle_seconds: float) -> Verdict:
    """The verdict of an answer that is 4xx or 5xx; the last line is the one that counts."""
    line = lines[-1]
    code, status = line[:3], enhanced_code(line)
    if line[0] == TRANSIENT:
        if _too_much(code, status):
            # Before there is a recipient it is the server that has enough, and not one domain.
            return Throttled(throttle_seconds, None if step is Step.MAIL else domain)
        return RetryAfter(_reason(step, code, status, lines, recipient))
    suppresses = step in {Step.RCPT, Step.DOT} and status in BAD_ADDRESSES
    return Refused(
        _reason(step, code, status, lines, recipient), suppresses, provider_fault=step is Step.MAIL and code == NO_LOGIN
    )


def _too_much(code: bytes, status: str) -> bool:
    if status.startswith(POLICY):
        return True
    return code in TOO_MUCH and not status.startswith(ONE_MAILBOX)


def _reason(step: Step, code: bytes, status: str, lines: list[bytes], recipient: str) -> str:
    said = " ".join(filter(None, (code.decode(), status, reply_text(lines, recipient))))
    hint = HINTS.get(status) or HINTS.get(code.decode())
    where = "after the final dot" if step is Step.DOT else f"at {step.value}"
    return f"refused {where}: {said}" + (f" ({hint})" if hint and code.startswith(b"5") else "")


def lost_body(why: str, handed: bool) -> Verdict:
    """A connection was lost under a body; `handed` says that its last byte may have gone out."""
    return Unknown(f"{why} after the final dot") if handed else RetryAfter(f"{why} before the end of the message")


def lost_envelope(why: str, unanswered: Iterable[Step], not_at_fault: bool) -> Verdict:
    """A connection was lost while the envelope was under way: nothing was sent."""
    if not_at_fault:
        return NotCalled(why)
    at = next((step for step in unanswered if step is not Step.DOT), Step.DATA)
    return RetryAfter(f"{why} at {at.value}")
