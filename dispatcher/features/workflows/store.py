"""The store of workflows: save versions, find, compare, activate and delete them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.features.workflows.models import SavedWorkflow, Step, StoredWorkflow, Way
from dispatcher.plans.drawing.labels import label
from dispatcher.plans.plan import Plan, RequiredVariable, TemplateUse
from dispatcher.plans.plan import decode as decode_plan
from dispatcher.plans.plan import encode as encode_plan

_SQL = statements(__name__)
_reads = msgspec.json.Decoder(tuple[RequiredVariable, ...]).decode
_templates = msgspec.json.Decoder(tuple[TemplateUse, ...]).decode
_definition = msgspec.json.Decoder(dict[str, Any]).decode


class New(Struct, frozen=True):
    """A workflow that is to be saved: its definition, and the plan that it is compiled to."""

    definition: dict[str, Any]
    plan: Plan

    @property
    def name(self) -> str:
        """Return its name."""
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
    """Save workflows, all or none, and return them by name; one that is stored already makes no new version."""
    rows = await database.fetch(_SQL["put"], *_columns(workspace, new), author, activate)
    steps = {one.name: len(one.plan.nodes) for one in new}
    return {
        row["name"]: SavedWorkflow(row["name"], row["number"], row["created"], row["active"], steps[row["name"]])
        for row in rows
    }


async def compare(database: Database, workspace: Workspace, new: Sequence[New]) -> dict[str, dict[str, Any]]:
    """Return what is stored under their names, and whether `put` would take it for the same."""
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
    """Return the workflows after a name, by name."""
    rows = await database.fetch(_SQL["list"], workspace.tenant_id, workspace.workspace_id, after, count, active)
    return [dict(row) for row in rows]


async def find(database: Database, workspace: Workspace, name: str, number: int | None = None) -> Found | None:
    """Return a version of a workflow, the newest without a number; or None."""
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
    """Return the newest versions of a workflow."""
    return [dict(row) for row in await database.fetch(_SQL["versions"], workflow_id, count)]


async def actions(database: Database, workflow_id: int, count: int) -> list[dict[str, Any]]:
    """Return the last actions on a workflow."""
    return [dict(row) for row in await database.fetch(_SQL["actions"], workflow_id, count)]


async def set_active(database: Database, workspace: Workspace, name: str, active: bool, actor: str) -> str:
    """Activate or deactivate a workflow; return done, same or unknown."""
    asked = workspace.tenant_id, workspace.workspace_id, name, active, actor
    return str(await database.value(_SQL["set_active"], *asked))


async def lock_version(database: Database, workspace: Workspace, name: str) -> int | None:
    """Return the number of the newest version, and lock it until the transaction ends."""
    found = await database.value(_SQL["lock_version"], workspace.tenant_id, workspace.workspace_id, name)
    return None if found is None else int(found)


async def delete(database: Database, workspace: Workspace, name: str, actor: str) -> str:
    """Delete a workflow; return deleted, unknown, or why that was refused: active or running."""
    return str(await database.value(_SQL["delete"], workspace.tenant_id, workspace.workspace_id, name, actor))


def steps(plan: Plan) -> list[Step]:
    """Return the nodes of a plan, in the order of its definition."""
    return [
        Step(node.step, name, label(node), [Way(edge.to, edge.condition) for edge in plan.edges.get(name, ())])
        for name, node in plan.nodes.items()
    ]
