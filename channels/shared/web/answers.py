"""The meaning of a status and of Retry-After, for every provider."""

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from channels.contract import Refused, RetryAfter, Unknown, Verdict
from channels.shared.web.client import Answer, Lost

OK, REDIRECT, BAD, TOO_MANY, SERVER = 200, 300, 400, 429, 500
# Refused before anything was done, and not for good: a request that came too slowly, or too early.
_TOO_SOON = frozenset({408, 425, TOO_MANY})
# What a gateway says when it has no answer from the one behind it: whether that one was called is unknown.
_NO_ANSWER = frozenset({502, 504, 524})
# No limit is told in more than days: what says more is taken for this.
WAIT_SECONDS_MAX = 86_400.0


def succeeded(answer: Answer) -> bool:
    return OK <= answer.status < REDIRECT


def is_temporary(answer: Answer) -> bool:
    """Whether a failure with this status may pass by itself."""
    return answer.status >= SERVER or answer.status in _TOO_SOON


def is_gateway_error(answer: Answer) -> bool:
    """Whether the status says that a gateway had no answer."""
    return answer.status in _NO_ANSWER


def is_redirect(answer: Answer) -> bool:
    return REDIRECT <= answer.status < BAD


def asked_wait(answer: Answer) -> float | None:
    """For how long an answer asks to be left alone, in seconds."""
    return retry_after(answer.headers.get("retry-after", ""))


def lost_verdict(lost: Lost) -> Verdict:
    """The verdict where no answer came."""
    if lost.written:
        return Unknown(f"no answer: {lost.why}")
    if lost.forbidden:
        return Refused(
            "recipient: its URL leads to an address that is not public; if that is meant, name it in allow_addresses"
        )
    return RetryAfter(f"no connection: {lost.why}")


def retry_after(text: str) -> float | None:
    """The value of Retry-After, in seconds or as a date by this machine's clock; None where it is neither."""
    asked = seconds(text)
    if asked is not None:
        return asked
    try:
        moment = parsedate_to_datetime(text)
        return _bounded((moment - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return None


def seconds(text: str) -> float | None:
    """A number of seconds, if it is finite, within bounds."""
    try:
        number = float(text)
    except ValueError:
        return None
    return _bounded(number) if math.isfinite(number) else None


def _bounded(number: float) -> float:
    return min(max(number, 0.0), WAIT_SECONDS_MAX)
