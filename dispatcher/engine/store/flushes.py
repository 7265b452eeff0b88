"""Flushes: results written in bulk, fenced by token, safe to run again when the answer to COMMIT was lost."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, structs
from msgspec.json import encode as encode_json

from dispatcher.base.values.addresses import address
from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.engine.rules import life
from dispatcher.engine.rules.life import Claimed, Failed, Lost, Outcome, Result, Status, Succeeded, success_status

# A provider's id or reason is foreign input.
TEXT_MAX = 2_000

_SQL = statements(__name__)


class Row(Struct, frozen=True, gc=False):
    """The columns of an outcome other than success, in the order of the statement's arguments."""

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
    passed: bool = False


def row(outcome: Outcome) -> Row:
    """Return the row of an outcome other than success."""
    match outcome:
        case Failed(reason=reason, conclusive=conclusive):
            return Row("failed", False, _storable(reason), conclusive=conclusive)
        case life.Skipped(reason=reason, conclusive=conclusive):
            return Row("skipped", False, _storable(reason), conclusive=conclusive)
        case life.Held(reason=reason):
            return Row("queued", True, _storable(reason))
        case life.Again(delay_seconds=delay, reason=reason, resend=resend, passed=passed):
            by, seconds = (None, None) if resend is None else (resend.by, resend.key_seconds)
            return Row("queued", False, _storable(reason), delay, resent_by=by, key_seconds=seconds, passed=passed)
        case life.Back(delay_seconds=delay, why=why, throttled=throttled, passed=passed):
            return Row("queued", False, _storable(why), delay, True, throttled, passed=passed)
        case life.Parked(pause_id=pause_id):
            return Row("queued", False, "paused", give_back=True, pause_id=pause_id)
        case _:
            raise ValueError(f"{outcome!r} is not written this way")


def _storable(text: str) -> str:
    """Return text from outside as Postgres can store it: one NUL would fail the whole batch for ever."""
    if len(text) <= TEXT_MAX and text.isascii() and "\0" not in text:
        return text
    return text[:TEXT_MAX].encode("utf-8", "replace").decode().replace("\0", "?")


async def flush(database: Database, results: Sequence[Result], spent: Sequence[int]) -> list[Result]:
    """Write results and drop the claims that they complete; return those whose claim was no longer ours."""
    accepted = [(item, outcome) for item, outcome in results if type(outcome) is Succeeded]
    others = [result for result in results if type(result[1]) is not Succeeded and type(result[1]) is not Lost]
    fenced: set[tuple[int, int]] = set()
    await _keep_answers(database, accepted)
    # The claims go with the last statement: dropped earlier, a crash in between would leave rows that no claim names.
    if others:
        fenced |= await _write_others(database, others, [] if accepted else spent)
    if accepted or not others:
        fenced |= await _write_accepted(database, accepted, spent)
    return [result for result in results if (result[0].id, result[0].token) in fenced] if fenced else []


def _columns(rows: Sequence[Sequence[object]], width: int) -> list[list[object]]:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]


async def _keep_answers(database: Database, accepted: Sequence[tuple[Claimed, Succeeded]]) -> None:
    answers = [(item.id, item.token, _json(outcome.data)) for item, outcome in accepted if outcome.data]
    if answers:
        await database.fetch(_SQL["answers"], *_columns(answers, 3))


def _json(data: Any) -> str:  # noqa: ANN401 - whatever a function answered
    """Return a function's answer as Postgres can store it: jsonb refuses the escape of a NUL."""
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


async def _write_accepted(
    database: Database, results: Sequence[tuple[Claimed, Succeeded]], spent: Sequence[int]
) -> set[tuple[int, int]]:
    statuses = {channel: success_status(channel) for channel in {item.channel for item, _ in results}}
    written = [
        (item.id, item.token, statuses[item.channel], _storable(outcome.provider_message_id))
        for item, outcome in results
    ]
    columns = _columns(written, 4)
    if any(item.run_id is not None or item.campaign_run_id is not None for item, _ in results):
        count = await database.value(_SQL["accepted_awaited"], *columns, spent)
    else:
        count = await database.write(_SQL["accepted"], *columns, spent)
    if count == len(results):
        return set()
    return {(found[0], found[1]) for found in await database.fetch(_SQL["unwritten"], *columns[:3])}


async def _write_others(database: Database, results: Sequence[Result], spent: Sequence[int]) -> set[tuple[int, int]]:
    written = [(item.id, item.token, *structs.astuple(row(outcome))) for item, outcome in results]
    columns = *_columns(written, 13), spent, *_columns(_dead_addresses(results), 5)
    return {(found[0], found[1]) for found in await database.fetch(_SQL["others"], *columns)}


def _dead_addresses(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """Return the addresses to which nothing more will ever be sent, as rows of suppressions."""
    dead: list[tuple[str, ...]] = []
    for item, outcome in results:
        if type(outcome) is not Failed or not outcome.suppresses:
            continue
        contact = address(item.channel, item.recipient)
        # A mailbox that is gone is gone for every channel; a number without SMS may still be called.
        channel = "" if contact.kind == "email" else item.channel
        if contact.text:
            reason = _storable(f"delivery {item.id}: {outcome.reason}")
            dead.append((item.tenant_id, contact.kind, contact.text, channel, reason))
    return dead


async def keep_evidence(database: Database, item: Claimed, outcome: Outcome) -> str:
    """Write what a late result tells; return applied, resolved, kept or dropped (see late_result)."""
    verdict, status, message_id, reason = _evidence(item, outcome)
    texts = (None if text is None else _storable(text) for text in (message_id, reason))
    return str(await database.value(_SQL["late"], item.id, item.token, verdict, status, *texts))


def _evidence(item: Claimed, outcome: Outcome) -> tuple[str, Status, str | None, str | None]:
    """Return the verdict, the status that it means, the provider's id and the reason."""
    match outcome:
        case Succeeded(provider_message_id=message_id):
            return "accepted", success_status(item.channel), message_id, None
        case Failed(reason=reason):
            return "refused", "failed", None, reason
        case life.Again(reason=reason, resend=None):
            return "retry", "queued", None, reason
        case life.Again(reason=reason) | life.Held(reason=reason):
            return "unknown", "queued", None, reason
        case life.Skipped() | life.Back() | life.Parked() | Lost():
            return "not_called", "queued", None, None
