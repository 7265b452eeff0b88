"""What the deliveries of a node come to: whether it has ended, and what it adds to the context."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from dispatcher.plans.walk.run import Sent

QUEUED: Final = "queued"
SUCCESSES: Final = frozenset({"sent", "called", "posted"})


def has_ended(sents: Sequence[Sent]) -> bool:
    """Whether all deliveries are over; where none is known it is not."""
    return bool(sents) and all(one.status != QUEUED for one in sents)


def failure(sents: Sequence[Sent]) -> str | None:
    """The words of a node that has failed: one delivery did and none was sent."""
    failed = [one for one in sents if one.status == "failed"]
    if not failed or any(one.status in SUCCESSES for one in sents):
        return None
    words = next((one.error for one in failed if one.error), "failed")
    return words if len(sents) == 1 else f"{len(failed)} of {len(sents)} deliveries failed: {words}"


def of_send(sents: Sequence[Sent]) -> dict[str, Any]:
    """The result of a send that has not failed; with several recipients that of each, too."""
    if len(sents) == 1:
        return _one(sents[0])
    first = next((one for one in sents if one.status in SUCCESSES), sents[0])
    return {**_one(first), "recipients": [_recipient(one) for one in sents]}


def of_call(sents: Sequence[Sent]) -> Mapping[str, Any]:
    """What the function answered."""
    return sents[0].data or {}


def _one(sent: Sent) -> dict[str, Any]:
    is_sent = sent.status in SUCCESSES and sent.finished_at is not None
    return {
        "message_id": sent.message_id,
        "sent_at": at(sent.finished_at) if is_sent and sent.finished_at is not None else None,
        "status": sent.status,
    }


def _recipient(sent: Sent) -> dict[str, Any]:
    found = {"recipient": sent.recipient, **_one(sent)}
    return {**found, "error": sent.error} if sent.error else found


def at(seconds: float) -> str:
    """A time as results have it: RFC 3339, UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
