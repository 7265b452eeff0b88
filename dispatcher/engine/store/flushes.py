"""Flushes: results written in bulk, fenced by token, safe to run again when the answer to COMMIT was lost."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.json import encode as encode_json

from dispatcher.base.values.addresses import address
from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.engine.rules.life import (
    Again,
    Back,
    Claimed,
    Failed,
    Held,
    Lost,
    Outcome,
    Parked,
    Resend,
    Result,
    Skipped,
    Status,
    Succeeded,
    success_status,
)

# A provider's id or reason is foreign input.
TEXT_MAX = 2_000

_SQL = statements(__name__)
_ACCEPTED = _SQL["accepted"]
_ANSWERS = _SQL["answers"]
_OTHERS = _SQL["others"]
_LATE = _SQL["late"]


class Row(Struct, frozen=True, gc=False):
    """What an outcome other than success writes."""

    status: Status
    held: bool
    reason: str
    delay_seconds: float = 0.0
    give_back: bool = False
    throttled: bool = False
    pause_id: int | None = None
    resent_by: str | None = None
    key_seconds: float | None = None
    conclusive: bool = False


def row(outcome: Outcome) -> Row:  # noqa: PLR0911 - one return an outcome
    """An outcome other than success, as it is written."""
    match outcome:
        case Failed(reason=reason, conclusive=conclusive):
            return Row("failed", False, reason, conclusive=conclusive)
        case Skipped(reason=reason, conclusive=conclusive):
            return Row("skipped", False, reason, conclusive=conclusive)
        case Held(reason=reason):
            return Row("queued", True, reason)
        case Again(delay_seconds=delay, reason=reason, resend=None):
            return Row("queued", False, reason, delay)
        case Again(delay_seconds=delay, reason=reason, resend=Resend(by=by, key_seconds=seconds)):
            return Row("queued", False, reason, delay, resent_by=by, key_seconds=seconds)
        case Back(delay_seconds=delay, why=why, throttled=throttled):
            return Row("queued", False, why, delay, True, throttled)
        case Parked(pause_id=pause_id):
            return Row("queued", False, "paused", give_back=True, pause_id=pause_id)
        case _:
            raise ValueError(f"{outcome!r} is not written this way")


def _storable(text: str) -> str:
    """What a provider or a template said, as Postgres can keep it: one NUL would fail the whole batch for ever."""
    if len(text) <= TEXT_MAX and text.isascii() and "\0" not in text:
        return text
    return text[:TEXT_MAX].encode("utf-8", "replace").decode().replace("\0", "?")


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
    fenced: set[tuple[int, int]] = set()
    await _keep_answers(database, accepted)
    # The claims go with the last statement: dropped earlier, a crash in between would leave rows that no claim names.
    if others:
        fenced |= await _write_others(database, others, [] if accepted else spent)
    if accepted or not others:
        fenced |= await _write_accepted(database, accepted, spent)
    return [result for result in results if (result[0].id, result[0].token) in fenced] if fenced else []


async def _keep_answers(database: Database, accepted: Sequence[Result]) -> None:
    answers = [(item, outcome.data) for item, outcome in accepted if type(outcome) is Succeeded and outcome.data]
    if answers:
        await database.fetch(
            _ANSWERS,
            [item.id for item, _ in answers],
            [item.token for item, _ in answers],
            [_json(data) for _, data in answers],
        )


def _json(data: Any) -> str:  # noqa: ANN401 - whatever a function answered
    """What a function answered, as Postgres can keep it: a NUL is an escape that jsonb refuses."""
    text = encode_json(data).decode()
    return text if "\\u0000" not in text else encode_json(_without_nul(data)).decode()


def _without_nul(value: Any) -> Any:  # noqa: ANN401 - as above
    if isinstance(value, str):
        return value.replace("\0", "?")
    if isinstance(value, list):
        return [_without_nul(one) for one in value]
    if isinstance(value, dict):
        return {_without_nul(key): _without_nul(one) for key, one in value.items()}
    return value


async def _write_accepted(database: Database, results: Sequence[Result], spent: Sequence[int]) -> set[tuple[int, int]]:
    statuses = {channel: success_status(channel) for channel in {item.channel for item, _ in results}}
    rows = await database.fetch(
        _ACCEPTED,
        [item.id for item, _ in results],
        [item.token for item, _ in results],
        [statuses[item.channel] for item, _ in results],
        [_storable(outcome.provider_message_id) for _, outcome in results],  # type: ignore[union-attr] # only Succeeded comes here
        spent,
    )
    return {(found["id"], found["token"]) for found in rows}


async def _write_others(database: Database, results: Sequence[Result], spent: Sequence[int]) -> set[tuple[int, int]]:
    written = [row(outcome) for _, outcome in results]
    rows = await database.fetch(
        _OTHERS,
        [item.id for item, _ in results],
        [item.token for item, _ in results],
        [one.status for one in written],
        [one.held for one in written],
        [_storable(one.reason) for one in written],
        [one.delay_seconds for one in written],
        [one.give_back for one in written],
        [one.throttled for one in written],
        [one.pause_id for one in written],
        [one.resent_by for one in written],
        [one.key_seconds for one in written],
        [one.conclusive for one in written],
        spent,
        *_dead(results),
    )
    return {(found["id"], found["token"]) for found in rows}


def _dead(results: Sequence[Result]) -> list[list[str]]:
    """Addresses to which nothing more will ever be sent, as columns."""
    columns: list[list[str]] = [[], [], [], [], []]
    for item, outcome in results:
        if type(outcome) is not Failed or not outcome.suppresses:
            continue
        dead = address(item.channel, item.recipient)
        # A mailbox that is gone is gone for every channel; a number without SMS may still be called.
        channel = "" if dead.kind == "email" else item.channel
        if dead.text:
            row = item.tenant_id, dead.kind, dead.text, channel, _storable(f"delivery {item.id}: {outcome.reason}")
            for column, value in zip(columns, row, strict=True):
                column.append(value)
    return columns


async def keep_evidence(database: Database, item: Claimed, outcome: Outcome) -> str:
    """What a late result does: applied, resolved, kept or dropped (see late_result)."""
    verdict, status, message_id, reason = _evidence(item, outcome)
    told = (None if text is None else _storable(text) for text in (message_id, reason))
    return str(await database.value(_LATE, item.id, item.token, verdict, status, *told))


def _evidence(item: Claimed, outcome: Outcome) -> tuple[str, Status, str | None, str | None]:
    """Verdict, the status that it means, the provider's id and the reason."""
    match outcome:
        case Succeeded(provider_message_id=message_id):
            return "accepted", success_status(item.channel), message_id, None
        case Failed(reason=reason):
            return "refused", "failed", None, reason
        case Again(reason=reason, resend=resend) if resend is not None:
            return "unknown", "queued", None, reason
        case Again(reason=reason):
            return "retry", "queued", None, reason
        case Held(reason=reason):
            return "unknown", "queued", None, reason
        case Skipped() | Back() | Parked() | Lost():
            return "not_called", "queued", None, None
