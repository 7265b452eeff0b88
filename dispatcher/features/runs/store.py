"""Runs: starting them, finding and showing them, and what an operator may do to one."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import asyncpg
import msgspec
from msgspec import Raw, Struct, structs

from dispatcher.base.errors import Fault, Missing, TriggerRefused, Why
from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.features.runs.models import Entry, Progress, Run, RunAttempt, RunQuery, Triggered, Visit, WholeRun
from dispatcher.features.workflows.models import Step
from dispatcher.plans.drawing.labels import label
from dispatcher.plans.plan import Plan
from dispatcher.plans.plan import decode as decode_plan

_SQL = statements(__name__)
_cursor = msgspec.json.Decoder(dict[str, Visit]).decode

Verb = Literal["pause", "resume", "cancel", "replay"]
# What is JSON in an entry of a log.
_JSON = {"context", "added"}

# How the schema's functions refuse a call, and how Postgres refuses JSON that it cannot keep.
_REFUSALS = (
    asyncpg.DataError,
    asyncpg.NoDataFoundError,
    asyncpg.ObjectNotInPrerequisiteStateError,
    asyncpg.ProgramLimitExceededError,
)
_WHY: Mapping[str, Why] = {
    asyncpg.NoDataFoundError.sqlstate: "unknown",
    asyncpg.ObjectNotInPrerequisiteStateError.sqlstate: "not now",
}


class _Detail(Struct, frozen=True):
    """A fault as the schema's functions write it."""

    path: str
    words: str
    # What an input lacks, by name.
    kind: str = ""
    name: str = ""


_details = msgspec.json.Decoder(list[_Detail]).decode


class Trigger(Struct, frozen=True, kw_only=True):
    """What starts a run."""

    workflow: str
    input: str
    key: str | None
    workspace: Workspace
    by: str


async def trigger(database: Database, given: Trigger) -> Triggered:
    """Start a run; raises TriggerRefused with everything that is missing."""
    with _refusing():
        rows = await database.fetch(_SQL["trigger"], *_asked(given))
    return Triggered(*rows[0])


async def trigger_many(database: Database, batch: Sequence[Trigger]) -> list[Triggered | TriggerRefused]:
    """The same for triggers of one workflow, in one transaction: each is answered as if it had come alone.

    Raises TriggerRefused where one has JSON that Postgres cannot keep, and does nothing: which one, each shows alone.
    """
    first = batch[0]
    whose = first.workspace.tenant_id, first.workspace.workspace_id, first.workflow
    told = [one.input for one in batch], [one.key for one in batch], [one.by for one in batch]
    with _refusing():
        rows = await database.fetch(_SQL["trigger_many"], *whose, *told)
    if any(row["refusal"] == asyncpg.LockNotAvailableError.sqlstate for row in rows):
        raise asyncpg.LockNotAvailableError("canceling statement due to lock timeout")
    answers = {place: _answered(first.workflow, row) for place, *row in rows}
    return [answers[place] for place in range(1, len(batch) + 1)]


def _answered(workflow: str, row: Sequence[Any]) -> Triggered | TriggerRefused:
    run_id, version, total_steps, duplicate, code, message, detail = row
    if code is None:
        return Triggered(run_id, workflow, version, "queued", total_steps, duplicate)
    return _refusal(code, message, detail)


async def try_trigger(database: Database, given: Trigger) -> Triggered | None:
    """The run that a trigger would find, or None where it would start one; raises what it would raise.

    It is the trigger itself, where nothing may be written: it ends where all checks are over.
    """
    with _refusing():
        rows = await database.fetch_read_only(_SQL["trigger"], *_asked(given))
    return None if rows is None else Triggered(*rows[0])


def _asked(given: Trigger) -> tuple[object, ...]:
    workspace = given.workspace
    return given.workflow, given.input, given.key, workspace.tenant_id, workspace.workspace_id, given.by


@contextmanager
def _refusing() -> Iterator[None]:
    """Raise TriggerRefused where a call is refused. That a lock is not let go of is none, though of the same class."""
    try:
        yield
    except asyncpg.LockNotAvailableError:
        raise
    except _REFUSALS as refusal:
        raise refused(refusal) from refusal


def refused(refusal: asyncpg.PostgresError) -> TriggerRefused:
    """A refusal with its faults."""
    # Its own fields are typed as absent.
    detail: str | None = getattr(refusal, "detail", None)
    message = str(refusal.args[0]) if refusal.args else str(refusal)
    return _refusal(refusal.sqlstate or "", message, detail)


def _refusal(code: str, message: str, detail: str | None) -> TriggerRefused:
    try:
        details = _details(detail or "")
    except msgspec.MsgspecError:
        details = []
    faults = [Fault(one.path, one.words) for one in details] or [Fault("$", message)]
    missing = Missing(_names(details, "field"), _names(details, "variable"))
    return TriggerRefused(faults, message, _WHY.get(code, "faulty"), missing)


def _names(details: Sequence[_Detail], kind: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.name for one in details if one.kind == kind))


async def now(database: Database) -> float:
    """The database's time, in seconds since 1970."""
    return float(await database.value(_SQL["now"]))


async def newest(
    database: Database, tenant_id: str | None, workspace_id: str | None, asked: RunQuery, below: int, count: int
) -> list[int]:
    """Return the ids of the newest runs below an id; a tenant or a workspace that is None is any."""
    told: list[object] = [below, count, asked.status, asked.since, tenant_id, workspace_id]
    if asked.idempotency_key is not None:
        found = await database.fetch(_SQL["newest_of_key"], *told, asked.workflow, asked.idempotency_key)
    elif asked.workflow is not None:
        found = await database.fetch(_SQL["newest_of_workflow"], *told, asked.workflow)
    else:
        found = await database.fetch(_SQL["newest"], *told)
    return [row["id"] for row in found]


async def rows(database: Database, ids: Sequence[int]) -> list[Run]:
    """Return those of these runs that are there, in short, the newest first."""
    return [msgspec.convert(dict(row), Run) for row in await database.fetch(_SQL["rows"], ids)]


async def find(database: Database, run_id: int) -> Run | None:
    """Return a run in short, or None."""
    found = await rows(database, [run_id])
    return found[0] if found else None


async def execution(database: Database, run_id: int, whose: Workspace) -> dict[str, Any] | None:
    """Return a run of a workspace in the words of the older interface, or None."""
    rows = await database.fetch(_SQL["execution"], run_id, whose.tenant_id, whose.workspace_id)
    return dict(rows[0]) | {name: _raw(rows[0][name]) for name in ("input_payload", "context")} if rows else None


async def owner(database: Database, run_id: int) -> dict[str, Any] | None:
    """Whose a run is, or None."""
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
    attempts = await database.fetch(_SQL["attempts"], run_id, attempts_max)
    counts = await _counts(database, run_id)
    return WholeRun(
        **structs.asdict(run),
        paused_at=row["paused_at"],
        discarded_at=row["discarded_at"],
        steps=steps(decode_plan(row["plan"])),
        cursor=_cursor(row["cursor"]),
        counts=counts,
        attempts=[msgspec.convert(dict(one), RunAttempt) for one in attempts],
        input=_raw(row["input"]),
        context=_raw(row["context"]),
        held=sum(one["held"] for one in counts.values()),
        deliveries_total=sum(one["all"] for one in counts.values()),
        deliveries=await ordered(database, run_id, 0, deliveries_max),
    )


def steps(plan: Plan) -> list[Step]:
    """Return the nodes of a plan, in the order of its definition."""
    return [Step(node.step, name, label(node)) for name, node in plan.nodes.items()]


async def ordered(database: Database, run_id: int, after: int, count: int) -> list[dict[str, Any]]:
    """Return the deliveries of a run after an id, with their life."""
    return [dict(row) for row in await database.fetch(_SQL["deliveries"], run_id, count, after)]


async def progress(database: Database, run_id: int, first: int, count: int) -> Progress | None:
    """Return where a run stands, and so many entries of its log from a number on; or None."""
    # First of all the run: of one that has ended everything that is read after that is the last word.
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


async def act(database: Database, verb: Verb, run_id: int, reason: str, actor: str) -> str:
    """Do it to a run; the answer says what became of that."""
    return str(await database.value(_SQL[verb], run_id, reason, actor) or "unknown")


async def signal(database: Database, run_id: int, event: str, data: str, actor: str) -> str:
    """Send it an event: the answer is accepted, unknown, or how the run has ended; raises TriggerRefused."""
    with _refusing():
        return str(await database.value(_SQL["signal"], run_id, event, data, actor) or "unknown")
