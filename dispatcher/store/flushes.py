"""Flushes: results written in bulk, fenced by token, safe to run again when the answer to COMMIT was lost."""

from collections.abc import Sequence

from msgspec import Struct

from dispatcher.domain.life import (
    Again,
    Back,
    Claimed,
    Failed,
    Held,
    Lost,
    Outcome,
    Result,
    Skipped,
    Status,
    Succeeded,
    success_status,
)
from dispatcher.store.database import Database
from dispatcher.store.queries import statements

_SQL = statements("flushes")
_ACCEPTED = _SQL["accepted"]
_OTHERS = _SQL["others"]
_LATE = _SQL["late"]


class Row(Struct, frozen=True, gc=False):
    """What an outcome other than success writes."""

    status: Status
    held: bool
    reason: str
    delay_seconds: float
    give_back: bool


def row(outcome: Outcome) -> Row:
    """An outcome other than success, as it is written."""
    match outcome:
        case Failed(reason=reason):
            return Row("failed", False, reason, 0.0, False)
        case Skipped(reason=reason):
            return Row("skipped", False, reason, 0.0, False)
        case Held(reason=reason):
            return Row("queued", True, reason, 0.0, False)
        case Again(delay_seconds=delay, reason=reason):
            return Row("queued", False, reason, delay, False)
        case Back(delay_seconds=delay, why=why):
            return Row("queued", False, why, delay, True)
        case Succeeded() | Lost():
            raise ValueError(f"{outcome!r} is not written this way")


async def flush(database: Database, results: Sequence[Result], spent: Sequence[int]) -> list[Result]:
    """Write results and drop the claims that they complete. Answers those whose claim was no longer ours."""
    accepted: list[Result] = []
    others: list[Result] = []
    for result in results:
        outcome = result[1]
        if type(outcome) is Succeeded:
            accepted.append(result)
        elif type(outcome) is not Lost:
            others.append(result)
    fenced: set[int] = set()
    # The claims go with the last statement: dropped earlier, a crash in between would leave rows that no claim names.
    if others:
        fenced |= await _write_others(database, others, [] if accepted else spent)
    if accepted or not others:
        fenced |= await _write_accepted(database, accepted, spent)
    return [result for result in results if result[0].id in fenced] if fenced else []


async def _write_accepted(database: Database, results: Sequence[Result], spent: Sequence[int]) -> set[int]:
    statuses = {channel: success_status(channel) for channel in {item.channel for item, _ in results}}
    rows = await database.fetch(
        _ACCEPTED,
        [item.id for item, _ in results],
        [item.token for item, _ in results],
        [statuses[item.channel] for item, _ in results],
        [outcome.provider_message_id for _, outcome in results],  # type: ignore[union-attr] # only Succeeded comes here
        spent,
    )
    return {found["id"] for found in rows}


async def _write_others(database: Database, results: Sequence[Result], spent: Sequence[int]) -> set[int]:
    written = [row(outcome) for _, outcome in results]
    rows = await database.fetch(
        _OTHERS,
        [item.id for item, _ in results],
        [item.token for item, _ in results],
        [one.status for one in written],
        [one.held for one in written],
        [one.reason for one in written],
        [one.delay_seconds for one in written],
        [one.give_back for one in written],
        spent,
    )
    return {found["id"] for found in rows}


async def keep_evidence(database: Database, item: Claimed, outcome: Outcome) -> str:
    """What a late result does: applied, resolved, kept or dropped (see late_result_v1)."""
    return str(await database.value(_LATE, item.id, item.token, *_evidence(item, outcome)))


def _evidence(item: Claimed, outcome: Outcome) -> tuple[str, Status, str | None, str | None]:
    """Verdict, the status that it means, the provider's id and the reason."""
    match outcome:
        case Succeeded(provider_message_id=message_id):
            return "accepted", success_status(item.channel), message_id, None
        case Failed(reason=reason):
            return "refused", "failed", None, reason
        case Again(reason=reason):
            return "retry", "queued", None, reason
        case Held(reason=reason):
            return "unknown", "queued", None, reason
        case Skipped() | Back() | Lost():
            return "not_called", "queued", None, None
