"""The store of runs: trigger, find, show, pause, resume, cancel, replay and signal them."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import asyncpg
import msgspec
from msgspec import Raw, Struct, structs

from dispatcher.base.errors import TriggerRefused
from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.db.literals import array
from dispatcher.db.refusals import refusal, refusals
from dispatcher.db.statements import statements
from dispatcher.engine.rules.life import Lane
from dispatcher.features.runs.models import (
    Entry,
    GraphLine,
    Progress,
    Run,
    RunAttempt,
    RunQuery,
    Triggered,
    Visit,
    WholeRun,
)
from dispatcher.features.workflows.store import steps
from dispatcher.plans.drawing.terminal import drawn_lines
from dispatcher.plans.plan import decode as decode_plan

_SQL = statements(__name__)

# A filter looks at so many runs before it answers with what it has found so far.
LOOKED_MAX = 5_000
_cursor = msgspec.json.Decoder(dict[str, Visit]).decode

Verb = Literal["pause", "resume", "cancel", "replay"]
# The JSON fields of a log entry.
_JSON = {"context", "added"}


class DueRuns(Struct, frozen=True):
    """The runs of a lane that a walker is to take up, and how late the oldest is."""

    lane: Lane
    runs: int
    age_seconds: float


class Trigger(Struct, frozen=True, kw_only=True):
    """A request to start a run; the input is JSON."""

    workflow: str
    input: str
    key: str | None
    workspace: Workspace
    by: str
    traceparent: str | None = None


async def trigger(database: Database, given: Trigger) -> Triggered:
    """Start a run, or find the run of its key. Raises TriggerRefused with all faults."""
    with refusals():
        rows = await database.fetch(_SQL["trigger"], *_asked(given))
    return Triggered(*rows[0])


async def trigger_many(database: Database, batch: Sequence[Trigger]) -> list[Triggered | TriggerRefused]:
    """Trigger one workflow many times in one transaction; return the answer to each.

    Raises TriggerRefused, and does nothing, if any input is JSON that Postgres cannot store.
    """
    first = batch[0]
    place = first.workspace.tenant_id, first.workspace.workspace_id, first.workflow
    columns = [one.key for one in batch], [one.by for one in batch], [one.traceparent for one in batch]
    with refusals():
        rows = await database.fetch(
            _SQL["trigger_many"], *place, [one.input for one in batch], *(array(column) for column in columns)
        )
    if any(row["refusal"] == asyncpg.LockNotAvailableError.sqlstate for row in rows):
        raise asyncpg.LockNotAvailableError("canceling statement due to lock timeout")
    answers = {number: _answered(first.workflow, row) for number, *row in rows}
    return [answers[number] for number in range(1, len(batch) + 1)]


def _answered(workflow: str, row: Sequence[Any]) -> Triggered | TriggerRefused:
    run_id, version, total_steps, duplicate, code, message, detail = row
    if code is None:
        return Triggered(run_id, workflow, version, "queued", total_steps, duplicate)
    return refusal(code, message, detail)


async def try_trigger(database: Database, given: Trigger) -> Triggered | None:
    """Return the run that holds the key of a trigger, or None if it would start a run. Raises TriggerRefused.

    It is the trigger itself in a read-only transaction: it ends when all checks are over.
    """
    with refusals():
        rows = await database.fetch_read_only(_SQL["trigger"], *_asked(given))
    return None if rows is None else Triggered(*rows[0])


def _asked(given: Trigger) -> tuple[object, ...]:
    workspace = given.workspace
    place = workspace.tenant_id, workspace.workspace_id
    return given.workflow, given.input, given.key, *place, given.by, given.traceparent


async def newest(
    database: Database, tenant_id: str | None, workspace_id: str | None, asked: RunQuery, below: int, count: int
) -> tuple[list[int], int | None]:
    """Return the ids of the newest runs below an id; a tenant or a workspace that is None is any.

    With an id below which the search goes on, where it has looked at as many as it may.
    """
    conditions: list[object] = [below, count, asked.status, asked.since, tenant_id, workspace_id]
    if asked.idempotency_key is not None:
        found = await database.fetch(_SQL["newest_of_key"], *conditions, asked.workflow, asked.idempotency_key)
    elif asked.workflow is not None:
        found = await database.fetch(_SQL["newest_of_workflow"], *conditions, asked.workflow)
    else:
        looked = max(LOOKED_MAX if asked.status or asked.since else count, count)
        rows = await database.fetch(_SQL["newest"], *conditions, looked)
        ids = [row["id"] for row in rows if row["matches"]]
        ends = [row["id"] for row in rows if not row["matches"]]
        return ids, ends[0] if ends and len(ids) < count else None
    return [row["id"] for row in found], None


async def rows(database: Database, ids: Sequence[int]) -> list[Run]:
    """Return these runs in short, the newest first; ids of no run are left out."""
    return [msgspec.convert(dict(row), Run) for row in await database.fetch(_SQL["rows"], ids)]


async def find(database: Database, run_id: int) -> Run | None:
    """Return a run in short, or None."""
    found = await rows(database, [run_id])
    return found[0] if found else None


async def execution(database: Database, run_id: int, workspace: Workspace) -> dict[str, Any] | None:
    """Return a run of a workspace in the words of the older interface, or None."""
    rows = await database.fetch(_SQL["execution"], run_id, workspace.tenant_id, workspace.workspace_id)
    return dict(rows[0]) | {name: _raw(rows[0][name]) for name in ("input_payload", "context")} if rows else None


async def owner(database: Database, run_id: int) -> dict[str, Any] | None:
    """Return the tenant and workspace of a run, or None."""
    rows = await database.fetch(_SQL["owner"], run_id)
    return dict(rows[0]) if rows else None


async def log(database: Database, run_id: int, first: int, count: int) -> list[Entry]:
    """Return the log of a run from a number on."""
    return [_entry(row) for row in await database.fetch(_SQL["entries"], run_id, first, count)]


def _entry(row: Mapping[str, Any]) -> Entry:
    facts = {name: value for name, value in row.items() if value is not None}
    return msgspec.convert(facts | {name: _raw(facts[name]) for name in facts.keys() & _JSON}, Entry)


def _raw(text: str) -> Raw:
    return Raw(text.encode())


async def show(database: Database, run_id: int, attempts_max: int, deliveries_max: int) -> WholeRun | None:
    """Return a run with all that is known of it, and so many of its attempts and deliveries; or None."""
    run = await find(database, run_id)
    if run is None:
        return None
    row = (await database.fetch(_SQL["show"], run_id))[0]
    plan = decode_plan(row["plan"])
    attempts = await database.fetch(_SQL["attempts"], run_id, attempts_max)
    counts = await _counts(database, run_id)
    return WholeRun(
        **structs.asdict(run),
        paused_at=row["paused_at"],
        discarded_at=row["discarded_at"],
        is_enrolment=row["is_enrolment"],
        steps=steps(plan),
        graph=[GraphLine(*line) for line in drawn_lines(plan)],
        cursor=_cursor(row["cursor"]),
        counts=counts,
        attempts=[msgspec.convert(dict(one), RunAttempt) for one in attempts],
        input=_raw(row["input"]),
        context=_raw(row["context"]),
        held=sum(one["held"] for one in counts.values()),
        deliveries_total=sum(one["all"] for one in counts.values()),
        deliveries=await ordered(database, run_id, 0, deliveries_max),
    )


async def ordered(database: Database, run_id: int, after: int, count: int) -> list[dict[str, Any]]:
    """Return the deliveries of a run after an id, with their life."""
    return [dict(row) for row in await database.fetch(_SQL["deliveries"], run_id, count, after)]


async def progress(database: Database, run_id: int, first: int, count: int) -> Progress | None:
    """Return where a run stands, and so many entries of its log from a number on; or None."""
    # The run is read first: if it has ended, everything that is read after it is final.
    run = await find(database, run_id)
    if run is None:
        return None
    entries = await log(database, run_id, first, count + 1)
    return Progress(
        run=run,
        cursor=_cursor(await database.value(_SQL["cursor"], run_id)),
        counts=await _counts(database, run_id),
        entries=entries[:count],
        more=len(entries) > count,
    )


async def _counts(database: Database, run_id: int) -> dict[str, dict[str, int]]:
    rows = [dict(row) for row in await database.fetch(_SQL["counts"], run_id)]
    return {row.pop("node"): row for row in rows}


async def due(database: Database, counted_max: int) -> list[DueRuns]:
    """Return what is due in each lane, counted up to a bound."""
    rows = await database.fetch(_SQL["due"], counted_max)
    return [DueRuns(Lane(row["lane"]), row["runs"], row["age_seconds"]) for row in rows]


async def act(database: Database, verb: Verb, run_id: int, reason: str, actor: str) -> str:
    """Pause, resume, cancel or replay a run; return the answer of the SQL function."""
    return str(await database.value(_SQL[verb], run_id, reason, actor) or "unknown")


async def signal(database: Database, run_id: int, event: str, data: str, actor: str) -> str:
    """Send a run an event; return accepted, unknown, or the status of an ended run. Raises TriggerRefused."""
    with refusals():
        return str(await database.value(_SQL["signal"], run_id, event, data, actor) or "unknown")
