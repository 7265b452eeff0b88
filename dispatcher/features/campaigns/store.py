"""The store of campaigns: save, find, plan, deploy, test and delete them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

import asyncpg
import msgspec
from msgspec import Raw, Struct

from dispatcher.base.errors import Fault
from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.db.refusals import faults as listed_faults
from dispatcher.db.refusals import refusals
from dispatcher.db.statements import statements
from dispatcher.engine.rules.life import LANES, Lane
from dispatcher.features.campaigns.models import (
    DeployedCampaign,
    LackingVariable,
    LastRun,
    NewCampaign,
    SkippedContacts,
    last_run_of,
    window_of,
)
from dispatcher.features.campaigns.rules import Reads, Recipient

_SQL = statements(__name__)


class Fields(Struct, frozen=True, kw_only=True):
    """The fields of a campaign as they are stored."""

    channel: str
    template_name: str
    variables: Raw
    audience: Raw
    lane: int
    topic: str | None
    rate: float | None
    send_window: Any


class Put(Struct, frozen=True):
    """The result of saving a campaign; `open` where the open run forbids it."""

    answer: Literal["created", "changed", "same", "open"]
    version: int
    open_run: int | None


class Deleted(Struct, frozen=True):
    """The result of deleting a campaign; `open` where the open run forbids it."""

    answer: Literal["deleted", "unknown", "open"]
    open_run: int | None


class Plan(Struct, frozen=True):
    """How many contacts a deployment would have; of the first who would get nothing and what they lack; a sample."""

    contacts: int
    looked_at: int
    skipped: list[SkippedContacts]
    lacking: list[LackingVariable]
    sample: list[Recipient]


_plan = msgspec.json.Decoder(Plan).decode


def fields(given: NewCampaign, variables: str, audience: str) -> Fields:
    """Return a definition as it is stored; variables and audience are JSON as they were written."""
    return Fields(
        channel=given.channel,
        template_name=given.template,
        variables=Raw(variables.encode()),
        audience=Raw(audience.encode()),
        lane=LANES[given.lane],
        topic=given.topic,
        rate=given.rate,
        send_window=None if given.send_window is None else msgspec.to_builtins(given.send_window),
    )


async def faults(database: Database, here: Workspace, said: Fields) -> list[Fault]:
    """Return the faults of a campaign that only the database knows."""
    return listed_faults(await database.value(_SQL["faults"], *_place(here), _json(said)))


async def put(database: Database, here: Workspace, name: str, said: Fields, actor: str) -> Put:
    """Save a campaign whose fields were checked."""
    with refusals():
        (row,) = await database.fetch(_SQL["put"], *_place(here), name, _json(said), actor)
    return Put(*row)


def _json(said: Fields) -> str:
    return msgspec.json.encode(said).decode()


async def delete(database: Database, here: Workspace, name: str, actor: str) -> Deleted:
    """Delete a campaign."""
    (row,) = await database.fetch(_SQL["delete"], *_place(here), name, actor)
    return Deleted(*row)


async def lock_version(database: Database, here: Workspace, name: str) -> int | None:
    """Return the version of a campaign, and lock it until the transaction ends."""
    found: int | None = await database.value(_SQL["lock_version"], *_place(here), name)
    return found


async def listed(
    database: Database, here: Workspace, behind: str, count: int, *, channel: str | None = None
) -> list[dict[str, Any]]:
    """Return the campaigns behind a name, by name, with their last runs."""
    rows = await database.fetch(_SQL["list"], *_place(here), behind, count, channel)
    return [_shown(row) | {"last_run": _last_run(row["last_run"])} for row in rows]


def _last_run(text: str | None) -> LastRun | None:
    return None if text is None else last_run_of(text)


async def show(database: Database, here: Workspace, name: str) -> dict[str, Any] | None:
    """Return a campaign, or None; its variables and audience are JSON."""
    rows = await database.fetch(_SQL["show"], *_place(here), name)
    if not rows:
        return None
    raw = {field: Raw(rows[0][field].encode()) for field in ("variables", "audience")}
    window = rows[0]["send_window"]
    return _shown(rows[0]) | raw | {"send_window": None if window is None else window_of(window)}


def _shown(row: Any) -> dict[str, Any]:  # noqa: ANN401 - asyncpg's record
    return {**row, "lane": Lane(row["lane"]).name.lower()}


async def plan(database: Database, here: Workspace, name: str, reads: Reads, most: int, shown: int) -> Plan | None:
    """Return what a deployment would come to, looking at `most` contacts; None where there is no such campaign."""
    paths = msgspec.json.encode(reads.paths).decode()
    found = await database.value(_SQL["plan"], *_place(here), name, reads.names, paths, most, shown)
    return None if found is None else _plan(found)


async def deploy(
    database: Database, here: Workspace, name: str, scheduled_for: datetime | None, key: str | None, actor: str
) -> DeployedCampaign:
    """Deploy a campaign, or find the run of its key. Raises TriggerRefused with all faults."""
    with refusals(asyncpg.UniqueViolationError):
        (row,) = await database.fetch(_SQL["deploy"], name, scheduled_for, key, *_place(here), actor)
    return DeployedCampaign(row["run_id"], name, *row[1:])


async def test(database: Database, here: Workspace, name: str, recipients: Sequence[str], actor: str) -> int:
    """Send a campaign to given addresses; return the run. Raises TriggerRefused with all faults."""
    with refusals():
        return int(await database.value(_SQL["test"], name, recipients, *_place(here), actor))


def _place(here: Workspace) -> tuple[str, str]:
    return here.tenant_id, here.workspace_id
