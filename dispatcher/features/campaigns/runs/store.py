"""The store of campaign runs: find, show, pause, resume, cancel, replay and check them."""

from typing import Any, Literal

import msgspec
from msgspec import Struct

from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.db.refusals import refusals
from dispatcher.db.statements import statements
from dispatcher.engine.rules.life import Lane
from dispatcher.features.campaigns.models import window_of
from dispatcher.features.campaigns.runs.models import (
    CampaignBreach,
    CampaignEvent,
    CampaignRun,
    CampaignRunQuery,
    ReasonCount,
    RunStatus,
)
from dispatcher.features.campaigns.runs.models import WholeCampaignRun as Whole
from dispatcher.features.campaigns.runs.rules import current_pace, seconds_left

_SQL = statements(__name__)
_reasons = msgspec.json.Decoder(list[ReasonCount]).decode
_breaches = msgspec.json.Decoder(list[CampaignBreach]).decode

Verb = Literal["pause", "resume", "cancel"]


class Replayed(Struct, frozen=True):
    """How many deliveries are sent again, and the last that was looked at; None: there are no more."""

    replayed: int
    last: int | None


class Place(Struct, frozen=True):
    """Where a page of histories begins: a job, a delivery, and how many of its entries have been seen."""

    job_id: int
    delivery_id: int
    seen: int


class Part(Struct, frozen=True):
    """What a part of a check has found."""

    status: RunStatus
    jobs: int
    items: int
    last_job: int | None
    broken: list[int]
    breaches: list[CampaignBreach]


async def owner(database: Database, run_id: int) -> dict[str, Any] | None:
    """Return the tenant and workspace of a run, and whether it was cancelled."""
    rows = await database.fetch(_SQL["owner"], run_id)
    return dict(rows[0]) if rows else None


async def listed(
    database: Database, tenant_id: str | None, workspace_id: str | None, asked: CampaignRunQuery, below: int, count: int
) -> list[CampaignRun]:
    """Return the newest runs below an id; a tenant or a workspace that is None is any."""
    filters = tenant_id, workspace_id, asked.campaign, asked.status, asked.test
    rows = await database.fetch(_SQL["list"], below, count, *filters)
    return [msgspec.convert(_shown(row), CampaignRun) for row in rows]


async def show(database: Database, run_id: int) -> Whole | None:
    """Return a run with its progress, or None."""
    rows = await database.fetch(_SQL["show"], run_id)
    if not rows:
        return None
    found = _shown(rows[0])
    window, idle = found.pop("send_window"), found.pop("idle_seconds")
    ended = found["finished_at"] is not None
    pace = 0.0 if ended else current_pace(found["pace"], idle)
    stands = found["paused"] or found["cancelled"]
    found |= {
        "send_window": None if window is None else window_of(window),
        "reasons": _reasons(found["reasons"]),
        "pace": pace,
        "seconds_left": 0.0 if ended else seconds_left(found["waiting"], pace, found["rate"], stands=stands),
    }
    return msgspec.convert(found, Whole)


def _shown(row: Any) -> dict[str, Any]:  # noqa: ANN401 - asyncpg's record
    found = dict(row) | {"lane": Lane(row["lane"]).name.lower()}
    done = sum(found[name] for name in ("sent", "failed", "skipped", "cancelled_count", "expired", "held"))
    return found | {"waiting": found["intended"] - done}


async def act(database: Database, verb: Verb, run_id: int, reason: str, here: Workspace, actor: str) -> str:
    """Pause, resume or cancel a run; return done, same, or why it was not."""
    return str(await database.value(_SQL[verb], run_id, reason, here.tenant_id, here.workspace_id, actor))


async def set_rate(database: Database, run_id: int, rate: float | None, here: Workspace, actor: str) -> str:
    """Change the rate of a run; return done, same, or why it was not. Raises TriggerRefused."""
    with refusals():
        return str(await database.value(_SQL["rate"], run_id, rate, here.tenant_id, here.workspace_id, actor))


async def replay(
    database: Database, run_id: int, after: int, page: int, *, reason: str, here: Workspace, actor: str
) -> Replayed:
    """Send a page of the failed deliveries behind an id again."""
    asked = run_id, after, page, reason, here.tenant_id, here.workspace_id, actor
    (row,) = await database.fetch(_SQL["replay"], *asked)
    return Replayed(*row)


async def jobs(database: Database, run_id: int, after: int, count: int, status: str | None) -> list[dict[str, Any]]:
    """Return jobs of a run behind an id."""
    return [dict(row) for row in await database.fetch(_SQL["jobs"], run_id, after, count, status)]


async def trace(
    database: Database, run_id: int, job_id: int, first: int, count: int, status: str | None
) -> list[dict[str, Any]]:
    """Return deliveries beside their jobs, from a delivery of a job on."""
    return [dict(row) for row in await database.fetch(_SQL["trace"], run_id, job_id, first, count, status)]


async def events(
    database: Database, run_id: int, after: int, count: int, entity: str | None
) -> list[tuple[int, CampaignEvent]]:
    """Return what happened to a run and its jobs behind an event, each with its id."""
    rows = await database.fetch(_SQL["events"], run_id, after, count, entity)
    return [(row["id"], _audited(row)) for row in rows]


async def histories(database: Database, run_id: int, place: Place, count: int) -> list[CampaignEvent]:
    """Return what happened to the deliveries of a run, one delivery after the other."""
    rows = await database.fetch(_SQL["histories"], run_id, place.job_id, place.delivery_id, place.seen, count)
    return [_audited(row) for row in rows]


def _audited(row: Any) -> CampaignEvent:  # noqa: ANN401 - asyncpg's record
    return CampaignEvent(**{name: row[name] for name in CampaignEvent.__struct_fields__})


async def check(database: Database, run_id: int, here: Workspace, after: int, jobs: int) -> Part | None:
    """Check jobs of a run behind an id, with the first ones also the run as a whole; None: there is no such run."""
    rows = await database.fetch(_SQL["check"], run_id, here.tenant_id, here.workspace_id, after, jobs)
    if not rows:
        return None
    row = rows[0]
    return Part(row["status"], row["jobs"], row["items"], row["last_job"], row["broken"], _breaches(row["breaches"]))
