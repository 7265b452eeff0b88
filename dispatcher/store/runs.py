"""Runs: starting them, finding and showing them, and what an operator may do to one."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from operator import itemgetter
from typing import Any, Literal

import asyncpg
import msgspec
from msgspec import Struct

from dispatcher.domain.plans.plan import Plan
from dispatcher.domain.plans.plan import decode as decode_plan
from dispatcher.domain.plans.run import Visit
from dispatcher.errors import Fault, Missing, TriggerRefused, Why
from dispatcher.store.database import Database
from dispatcher.store.queries import statements
from dispatcher.store.templates import Workspace

_SQL = statements("runs")
_cursor = msgspec.json.Decoder(dict[str, Visit]).decode

Verb = Literal["pause", "resume", "cancel", "replay"]
# A node writes two lines or three; one with this many has been replayed often.
ENTRIES_MAX = 10_000

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


class Triggered(Struct, frozen=True):
    """The run of a trigger; a duplicate is one that its key had started before."""

    execution_id: int
    workflow_name: str
    version: int
    status: str
    total_steps: int
    duplicate: bool


class Filter(Struct, frozen=True, kw_only=True):
    """Which runs are meant."""

    workflow: str | None = None
    status: str | None = None
    since: datetime | None = None
    tenant_id: str | None = None
    workspace_id: str | None = None
    key: str | None = None


class Progress(Struct, frozen=True):
    """Where a run stands, and what its log has had to say since it was looked at last."""

    run: Mapping[str, Any]
    cursor: Mapping[str, Visit]
    entries: Sequence[Mapping[str, Any]]
    # How the deliveries of each node stand.
    counts: Mapping[str, Mapping[str, int]]


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
        rows = await database.fetch_unwritten(_SQL["trigger"], *_asked(given))
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


async def newest(database: Database, which: Filter, below: int, count: int) -> list[int]:
    """The newest runs below an id."""
    asked: list[object] = [below, count, which.status, which.since, which.tenant_id, which.workspace_id]
    if which.key is not None:
        found = await database.fetch(_SQL["newest_of_key"], *asked, which.workflow, which.key)
    elif which.workflow is not None:
        found = await database.fetch(_SQL["newest_of_workflow"], *asked, which.workflow)
    else:
        found = await database.fetch(_SQL["newest"], *asked)
    return [row["id"] for row in found]


async def rows(database: Database, ids: Sequence[int]) -> list[dict[str, Any]]:
    """Those of these runs that are there, in short, the newest first."""
    return [dict(row) for row in await database.fetch(_SQL["rows"], ids)]


async def listed(database: Database, which: Filter, below: int, count: int) -> list[dict[str, Any]]:
    """The newest runs below an id, in short."""
    return await rows(database, await newest(database, which, below, count))


async def find(database: Database, run_id: int) -> dict[str, Any] | None:
    """A run in short, or None."""
    found = await rows(database, [run_id])
    return found[0] if found else None


async def execution(database: Database, run_id: int, whose: Workspace) -> dict[str, Any] | None:
    """A run of a workspace in the words of the older interface, or None."""
    rows = await database.fetch(_SQL["execution"], run_id, whose.tenant_id, whose.workspace_id)
    return (
        None
        if not rows
        else dict(rows[0]) | {name: msgspec.Raw(rows[0][name].encode()) for name in ("input_payload", "context")}
    )


async def owner(database: Database, run_id: int) -> dict[str, Any] | None:
    """Whose a run is, or None."""
    rows = await database.fetch(_SQL["owner"], run_id)
    return dict(rows[0]) if rows else None


async def log(database: Database, run_id: int, first: int, count: int) -> list[dict[str, Any]]:
    """The log of a run from a number on."""
    return [_with_json(dict(row)) for row in await database.fetch(_SQL["entries"], run_id, first, count)]


async def plan(database: Database, run_id: int) -> Plan | None:
    """The plan of the version that a run walks through; None where there is no such run."""
    found = await database.value(_SQL["plan"], run_id)
    return None if found is None else decode_plan(found)


async def show(database: Database, run_id: int, count: int) -> dict[str, Any] | None:
    """A run with its context, its log and, of that many deliveries, their life; None where there is none."""
    run = await find(database, run_id)
    if run is None:
        return None
    row = (await database.fetch(_SQL["show"], run_id))[0]
    entries = [dict(entry) for entry in await database.fetch(_SQL["entries"], run_id, 0, ENTRIES_MAX)]
    attempts = [_attempt(one) for one in await database.fetch(_SQL["attempts"], run_id, ENTRIES_MAX)]
    counts = await _counts(database, run_id)
    return {
        **run,
        "paused_at": row["paused_at"],
        "discarded_at": row["discarded_at"],
        "held": sum(one["held"] for one in counts.values()),
        "deliveries_total": sum(one["all"] for one in counts.values()),
        "input": msgspec.Raw(row["input"].encode()),
        "context": msgspec.Raw(row["context"].encode()),
        "cursor": _cursor(row["cursor"]),
        "counts": counts,
        "log": [_with_json(one) for one in sorted([*entries, *attempts], key=itemgetter("at"))],
        "deliveries": await ordered(database, run_id, 0, count),
    }


def _attempt(row: Any) -> dict[str, Any]:  # noqa: ANN401 - a record has no type of its own
    """An attempt as a line of the log."""
    return {
        "at": row["at"],
        "event": row["outcome"],
        "node": row["node"],
        "error": row["reason"],
        "delivery_id": row["delivery_id"],
        "recipient": row["recipient"],
        "attempt": row["attempt"],
        "next_at": row["next_at"],
    }


def _with_json(entry: dict[str, Any]) -> dict[str, Any]:
    for name in ("context", "added"):
        if entry.get(name) is not None:
            entry[name] = msgspec.Raw(entry[name].encode())
    return {name: value for name, value in entry.items() if value is not None}


async def ordered(database: Database, run_id: int, after: int, count: int) -> list[dict[str, Any]]:
    """The deliveries of a run behind an id, with their life."""
    return [dict(row) for row in await database.fetch(_SQL["deliveries"], run_id, count, after)]


async def progress(database: Database, run_id: int, first: int, count: int = ENTRIES_MAX) -> Progress | None:
    """Where a run stands, and its log from a number on; None where there is none."""
    # First of all the run: of one that has ended everything that is read after that is the last word.
    run = await find(database, run_id)
    if run is None:
        return None
    entries = await database.fetch(_SQL["entries"], run_id, first, count)
    cursor = _cursor(await database.value(_SQL["cursor"], run_id))
    return Progress(run, cursor, [_with_json(dict(row)) for row in entries], await _counts(database, run_id))


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
