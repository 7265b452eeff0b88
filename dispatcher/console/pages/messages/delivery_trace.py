"""The trace of a delivery: what happened to it, in order, with the time between the steps."""

from datetime import datetime
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from dispatcher.console.rendering import day, duration
from dispatcher.features.deliveries.models import Attempt, WholeDelivery

# What an attempt's outcome looks like.
_OUTCOMES = {"retry": ("pending", "Put off"), "unknown": ("held", "Outcome unknown"), "failed": ("failed", "Failed")}
_SENT = ("sent", "called", "posted")


class Step(Struct, frozen=True):
    """A step: before the mark (`pre`) nothing can have left."""

    at: datetime
    state: str
    title: str
    text: str = ""
    pre: bool = False
    since: str = ""
    # Where it is another one than that of the step before.
    day: str = ""
    # What a link to it names.
    id: str = ""


def trace(found: WholeDelivery) -> list[Step]:
    """Return the steps of a delivery in the order of time."""
    by = f"by run {found.run_id}; " if found.run_id is not None else ""
    steps = [
        Step(found.created_at, "pending", "Written", f"{by}key {found.idempotency_key}", pre=True),
        *map(_attempt, found.attempts),
        *(
            Step(one.captured_at, "sending", f"Attempt {one.attempt}: captured", one.fault or "")
            for one in found.captured
        ),
        *(Step(one.seen_at, "note", f"Late answer: {one.verdict}", one.reason or "") for one in found.evidence),
        *(Step(one.seen_at, "note", f"{one.provider} says: {one.kind}", one.reason or "") for one in found.receipts),
        *(Step(one.at, "note", f"{one.action.capitalize()} by {one.actor}", one.reason) for one in found.actions),
    ]
    if found.claimed_at is not None:
        steps.append(Step(found.claimed_at, "claimed", "Claimed", "by a dispatcher", pre=True))
        if found.marked:
            words = "its call may have begun since it was claimed"
            steps.append(Step(found.claimed_at, "sending", f"Attempt {found.attempt}: marked", words))
    if found.finished_at is not None and not _told(found):
        state = "sent" if found.life in _SENT else found.life
        steps.append(Step(found.finished_at, state, found.life.capitalize(), found.error or ""))
    steps.sort(key=lambda one: one.at)
    return timed(steps)


def _attempt(one: Attempt) -> Step:
    state, title = _OUTCOMES.get(one.outcome, ("skipped", one.outcome.capitalize()))
    until = f" until {one.next_at:%H:%M:%S}" if one.next_at else ""
    where = f" at {one.provider}" if one.provider else ""
    return Step(one.ended_at, state, f"Attempt {one.attempt}: {title.lower()}{until}", f"{one.reason or ''}{where}")


def _told(found: WholeDelivery) -> bool:
    """Whether its end is an attempt that is listed."""
    return found.life == "failed" and any(one.outcome == "failed" for one in found.attempts)


def timed(steps: list[Step]) -> list[Step]:
    """Return steps with the time since the one before, and their day where it is another one."""
    made = [replace(one, day=day(one.at)) for one in steps[:1]]
    for before, step in pairwise(steps):
        since = f"+{duration((step.at - before.at).total_seconds())}"
        made.append(replace(step, since=since, day="" if day(step.at) == day(before.at) else day(step.at)))
    return made
