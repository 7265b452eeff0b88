"""Workflows: saving versions of them, finding what is stored, and saying whether they take triggers."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.features.workflows.models import SavedWorkflow, StoredWorkflow
from dispatcher.plans.plan import Plan, RequiredVariable, TemplateUse
from dispatcher.plans.plan import decode as decode_plan
from dispatcher.plans.plan import encode as encode_plan

_SQL = statements(__name__)
_reads = msgspec.json.Decoder(tuple[RequiredVariable, ...]).decode
_templates = msgspec.json.Decoder(tuple[TemplateUse, ...]).decode
_definition = msgspec.json.Decoder(dict[str, Any]).decode


class New(Struct, frozen=True):
    """A workflow that is to be saved: as it was written, and the plan that it becomes."""

    definition: dict[str, Any]
    plan: Plan

    @property
    def name(self) -> str:
        """What it is called."""
        return self.plan.name


class Found(Struct, frozen=True, kw_only=True):
    """One version of a workflow."""

    id: int
    name: str
    active: bool
    latest: int
    version_id: int
    number: int
    total_steps: int
    required_fields: tuple[str, ...]
    reads: tuple[RequiredVariable, ...]
    templates: tuple[TemplateUse, ...]
    definition: dict[str, Any]
    plan: Plan
    author: str
    created_at: datetime


async def put(
    database: Database, workspace: Workspace, new: Sequence[New], author: str, *, activate: bool
) -> dict[str, SavedWorkflow]:
    """Save workflows as versions, all or none, by their names; what says what is stored already makes no other one."""
    rows = await database.fetch(_SQL["put"], *_columns(workspace, new), author, activate)
    steps = {one.name: len(one.plan.nodes) for one in new}
    return {
        row["name"]: SavedWorkflow(row["name"], row["number"], row["created"], row["active"], steps[row["name"]])
        for row in rows
    }


async def compare(database: Database, workspace: Workspace, new: Sequence[New]) -> dict[str, dict[str, Any]]:
    """What is stored under the names of these, and whether it is the same, told apart as `put` does it."""
    rows = await database.fetch(_SQL["compare"], *_columns(workspace, new))
    return {
        row["name"]: {
            "stored": StoredWorkflow(row["number"], row["active"], _definition(row["definition"])),
            "same": row["same"],
        }
        for row in rows
    }


def _columns(workspace: Workspace, new: Sequence[New]) -> tuple[object, ...]:
    return (
        workspace.tenant_id,
        workspace.workspace_id,
        [one.name for one in new],
        [msgspec.json.encode(one.definition).decode() for one in new],
        [encode_plan(one.plan).decode() for one in new],
    )


async def listed(
    database: Database, workspace: Workspace, after: str, count: int, *, active: bool | None = None
) -> list[dict[str, Any]]:
    """Workflows in the order of their names, those after a name."""
    rows = await database.fetch(_SQL["list"], workspace.tenant_id, workspace.workspace_id, after, count, active)
    return [dict(row) for row in rows]


async def names(database: Database, workspace: Workspace) -> list[str]:
    """The names of all."""
    rows = await database.fetch(_SQL["names"], workspace.tenant_id, workspace.workspace_id)
    return [row["name"] for row in rows]


async def find(database: Database, workspace: Workspace, name: str, number: int | None = None) -> Found | None:
    """A version of a workflow, the newest without a number; None where there is none."""
    rows = await database.fetch(_SQL["find"], workspace.tenant_id, workspace.workspace_id, name, number)
    if not rows:
        return None
    row = dict(rows[0])
    return Found(
        **row
        | {
            "required_fields": tuple(row["required_fields"]),
            "reads": _reads(row["reads"]),
            "templates": _templates(row["templates"]),
            "definition": _definition(row["definition"]),
            "plan": decode_plan(row["plan"]),
        }
    )


async def versions(database: Database, workflow_id: int, count: int) -> list[dict[str, Any]]:
    """The newest versions of a workflow."""
    return [dict(row) for row in await database.fetch(_SQL["versions"], workflow_id, count)]


async def actions(database: Database, workflow_id: int, count: int) -> list[dict[str, Any]]:
    """What was done to a workflow last, by whom and when."""
    return [dict(row) for row in await database.fetch(_SQL["actions"], workflow_id, count)]


async def set_active(database: Database, workspace: Workspace, name: str, active: bool, actor: str) -> str:
    """Let it take triggers, or none any more; the answer is done, same or unknown."""
    asked = workspace.tenant_id, workspace.workspace_id, name, active, actor
    return str(await database.value(_SQL["set_active"], *asked))


async def keep(database: Database, workspace: Workspace, name: str) -> int | None:
    """The number of its newest version, which stays until the transaction has ended."""
    found = await database.value(_SQL["keep"], workspace.tenant_id, workspace.workspace_id, name)
    return None if found is None else int(found)


async def delete(database: Database, workspace: Workspace, name: str, actor: str) -> str:
    """Delete it; the answer is deleted, or unknown, active or running, where that was refused."""
    return str(await database.value(_SQL["delete"], workspace.tenant_id, workspace.workspace_id, name, actor))
