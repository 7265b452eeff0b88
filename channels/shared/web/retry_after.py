"""Waits: for how long an answer asks to be left alone."""

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

# No limit is told in more than days: what says more is taken for this.
WAIT_SECONDS_MAX = 86_400.0


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
    """A number of seconds, as far as it is one that can be waited."""
    try:
        number = float(text)
    except ValueError:
        return None
    return _bounded(number) if math.isfinite(number) else None


def _bounded(number: float) -> float:
    return min(max(number, 0.0), WAIT_SECONDS_MAX)
