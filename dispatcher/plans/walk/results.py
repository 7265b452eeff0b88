"""The outcome of a node's deliveries: whether the node has ended, whether it has failed, and its result."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from dispatcher.plans.walk.run import DeliveryResult

QUEUED: Final = "queued"
SUCCESSES: Final = frozenset({"sent", "called", "posted"})


def has_ended(results: Sequence[DeliveryResult]) -> bool:
    """Whether all deliveries have ended; False where none is known."""
    return bool(results) and all(one.status != QUEUED for one in results)


def failure(results: Sequence[DeliveryResult]) -> str | None:
    """The error of a node of which a delivery failed and none was sent; None for any other."""
    failed = [one for one in results if one.status == "failed"]
    if not failed or any(one.status in SUCCESSES for one in results):
        return None
    words = next((one.error for one in failed if one.error), "failed")
    return words if len(results) == 1 else f"{len(failed)} of {len(results)} deliveries failed: {words}"


def result_of_send(results: Sequence[DeliveryResult]) -> dict[str, Any]:
    """The result of a send that has not failed; with several recipients that of each, too."""
    first = next((one for one in results if one.status in SUCCESSES), results[0])
    if len(results) == 1:
        return _result(first)
    return {**_result(first), "recipients": [_recipient(one) for one in results]}


def _result(delivery: DeliveryResult) -> dict[str, Any]:
    sent_at = delivery.finished_at if delivery.status in SUCCESSES else None
    return {
        "message_id": delivery.message_id,
        "sent_at": None if sent_at is None else _rfc3339(sent_at),
        "status": delivery.status,
    }


def _rfc3339(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def _recipient(delivery: DeliveryResult) -> dict[str, Any]:
    error = {"error": delivery.error} if delivery.error else {}
    return {"recipient": delivery.recipient, **_result(delivery), **error}
