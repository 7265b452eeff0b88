"""The store of sequences: save, publish, pause, resume and delete them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.engine.rules.life import LANES
from dispatcher.features.sequences.rules import Settings, Step
from dispatcher.plans.plan import Day, Plan
from dispatcher.plans.plan import encode as encode_plan

_SQL = statements(__name__)
_json = msgspec.json.Encoder().encode
_settings = msgspec.json.Decoder(Settings).decode
_steps = msgspec.json.Decoder(list[Step]).decode
COUNTED_MAX = 10_000


class Found(Struct, frozen=True, kw_only=True):
    """A sequence with its draft."""

    id: int
    name: str
    status: str
    version: int
    revision: int
    is_changed: bool
    settings: Settings
    steps: list[Step]
    paused_at: datetime | None
    created_at: datetime
    updated_at: datetime
    user_id: str
    updated_by: str


def _place(here: Workspace) -> tuple[str, str]:
    return here.tenant_id, here.workspace_id


async def put(
    database: Database,
    here: Workspace,
    name: str,
    settings: Settings,
    steps: Sequence[Step],
    actor: str,
    revision: int | None = None,
) -> tuple[str, int | None]:
    """Save a draft; return created, changed, same, or stale where it has another revision; and the revision."""
    said = _json(settings).decode(), _json(steps).decode()
    (row,) = await database.fetch(_SQL["put"], *_place(here), name, *said, revision, actor)
    return row["answer"], row["revision"]


async def find(database: Database, here: Workspace, name: str) -> Found | None:
    """Return a sequence, or None."""
    rows = await database.fetch(_SQL["find"], *_place(here), name)
    if not rows:
        return None
    return Found(**dict(rows[0]) | {"settings": _settings(rows[0]["settings"]), "steps": _steps(rows[0]["steps"])})


async def listed(
    database: Database, here: Workspace, after: str, count: int, status: str | None = None
) -> list[dict[str, Any]]:
    """Return the sequences behind a name, by name."""
    return [dict(row) for row in await database.fetch(_SQL["list"], *_place(here), after, count, status)]


async def publish(database: Database, here: Workspace, found: Found, plan: Plan, actor: str) -> tuple[str, int]:
    """Publish a draft that was read and compiled; return published, same, stale, empty or unknown, and the version."""
    definition = _json({"name": found.name, "settings": found.settings, "steps": found.steps}).decode()
    entry = _json(_entry(plan)).decode()
    lane = LANES[found.settings.lane]
    asked = found.name, found.revision, definition, encode_plan(plan).decode(), entry, lane, actor
    (row,) = await database.fetch(_SQL["publish"], *_place(here), *asked)
    return row["answer"], row["version"]


def _entry(plan: Plan) -> dict[str, Any]:
    """The first day of a plan, as enrolments need it."""
    day = plan.nodes[plan.entry]
    assert isinstance(day, Day)  # noqa: S101 - a sequence begins with one
    return {
        "node": plan.entry,
        "days": day.days,
        "hour": day.hour,
        "zone": day.zone,
        "contact_zone": day.contact_zone,
    }


async def delete(database: Database, here: Workspace, name: str, revision: int | None, actor: str) -> str:
    """Delete a sequence; return deleted, unknown, stale, or running where it has open enrolments."""
    return str(await database.value(_SQL["delete"], *_place(here), name, revision, actor))


async def pause(database: Database, here: Workspace, name: str, reason: str, actor: str) -> str:
    """Pause a sequence; return done, same, draft or unknown."""
    return str(await database.value(_SQL["pause"], name, reason, *_place(here), actor))


async def resume(database: Database, here: Workspace, name: str, reason: str, actor: str) -> str:
    """Resume a sequence; return done, same, draft or unknown."""
    return str(await database.value(_SQL["resume"], name, reason, *_place(here), actor))


async def versions(database: Database, sequence_id: int, count: int) -> list[dict[str, Any]]:
    """Return the newest versions of a sequence, with their open enrolments, counted to COUNTED_MAX."""
    return [dict(row) for row in await database.fetch(_SQL["versions"], sequence_id, COUNTED_MAX, count)]


async def funnel(database: Database, here: Workspace, sequence_id: int) -> list[dict[str, Any]]:
    """Return how many enrolments wait for each step, and what has become of its messages; of COUNTED_MAX each."""
    return [dict(row) for row in await database.fetch(_SQL["funnel"], *_place(here), sequence_id, COUNTED_MAX)]


async def statuses(database: Database, here: Workspace, sequence_id: int) -> dict[str, int]:
    """Return how many of the COUNTED_MAX newest enrolments are active, paused, completed and cancelled."""
    rows = await database.fetch(_SQL["statuses"], *_place(here), sequence_id, COUNTED_MAX)
    return {row["status"]: row["count"] for row in rows}
