"""Runs of campaigns: the time that is left, and the answers to actions in words."""

import math
from collections.abc import Mapping

# The pace is an average of about so many seconds; without results it fades as fast.
PACE_SECONDS = 10.0
# Slower than a message in a quarter of an hour is no pace to tell a time by.
PACE_MIN = 0.001

ANSWERS: Mapping[str, Mapping[str, str]] = {
    "pause": {"done": "is paused", "same": "is paused already"},
    "resume": {"done": "goes on", "same": "is not paused"},
    "cancel": {"done": "is cancelled: what is not sent is skipped", "same": "is cancelled already"},
    "rate": {"done": "has its new rate", "same": "has this rate already"},
}
ENDED = {"completed": "is completed", "partial": "has ended", "failed": "has failed", "cancelled": "was cancelled"}


def current_pace(pace: float, idle_seconds: float | None) -> float:
    """Return the messages a second that end now, by the average and how long ago it was made."""
    return 0.0 if idle_seconds is None else pace * math.exp(-max(0.0, idle_seconds - 1.0) / PACE_SECONDS)


def seconds_left(left: int, pace: float, rate: float | None, *, stands: bool) -> float | None:
    """Return for how long what is left will take; None where nobody can tell, as of a run that `stands`."""
    if left <= 0:
        return 0.0
    if stands:
        return None
    if rate is not None:
        # It was slower before it had begun, and sends no faster afterwards.
        pace = max(PACE_MIN, min(pace, rate) if pace >= PACE_MIN else rate)
    return left / pace if pace >= PACE_MIN else None


def sentence(verb: str, run_id: int, answer: str) -> tuple[bool, str]:
    """Return whether an action on a run was done, and the sentence about it."""
    answers = ANSWERS[verb]
    if answer in answers:
        return answer == "done", f"campaign run {run_id} {answers[answer]}"
    return False, f"campaign run {run_id} {ENDED.get(answer, f'is {answer}')}: too late"
