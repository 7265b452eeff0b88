"""Workflows over HTTP: saving versions, looking at them, and letting them take triggers or none any more."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from dispatcher.api import run_models, tags
from dispatcher.api.cursors import after
from dispatcher.api.endpoints import Call, Done, Endpoint
from dispatcher.api.listing import by_name, page
from dispatcher.api.problems import CHANGED, CONFLICT, NOT_FOUND, Problem, faulty, not_found
from dispatcher.domain.heavy import compile_definitions
from dispatcher.domain.plans.definition import Known, read_definition
from dispatcher.domain.plans.drawing import drawing
from dispatcher.domain.plans.labels import label
from dispatcher.domain.plans.mermaid import mermaid
from dispatcher.domain.plans.plan import Plan
from dispatcher.domain.roles import Right
from dispatcher.errors import Fault
from dispatcher.store import workflows as store
from dispatcher.store.workflows import Compared, Found, New, Saved

NOUN = "workflows"
# Of the versions of a workflow, and of what was done to it.
SHOWN_MAX = 20

R = TypeVar("R", bound=Struct)


async def list_(call: Call) -> Done:
    """By name."""
    asked: run_models.WorkflowQuery = call.query
    start = after(NOUN, asked.cursor) or asked.after or ""
    rows = await store.listed(call.database, call.workspace, start, asked.limit + 1, active=asked.active)
    return Done(run_models.Workflows(*page(rows, asked.limit, run_models.Workflow, by_name(NOUN))))


async def show(call: Call) -> Done:
    """A version of one."""
    asked: run_models.VersionQuery = call.query
    found = await _find(call, asked.version)
    whole = run_models.WholeWorkflow(
        name=found.name,
        active=found.active,
        version=found.number,
        total_steps=found.total_steps,
        author=found.author,
        created_at=found.created_at,
        definition=found.definition,
        latest=found.latest,
        required_fields=found.required_fields,
        reads=[one.path for one in found.reads],
        templates=msgspec.to_builtins(found.templates),
        steps=[run_models.Step(node.step, node_id, label(node)) for node_id, node in found.plan.nodes.items()],
        graph=drawing(found.plan),
        mermaid=mermaid(found.plan),
        versions=_rows(await store.versions(call.database, found.id, SHOWN_MAX), run_models.Version),
        actions=_rows(await store.actions(call.database, found.id, SHOWN_MAX), run_models.WorkflowAction),
    )
    return Done(whole, headers={"etag": tags.tag(found.number)})


def _rows(rows: Sequence[Mapping[str, Any]], kind: type[R]) -> list[R]:
    return [msgspec.convert(row, kind) for row in rows]


async def _find(call: Call, number: int | None = None) -> Found:
    name = call.path["name"]
    found = None if "\0" in name else await store.find(call.database, call.workspace, name, number)
    if found is None and number is not None:
        newest = await _find(call)
        raise not_found(f"version {number} of workflow {newest.name!r}; its newest is {newest.latest}")
    if found is None:
        raise not_found(f"workflow {name[:101]!r}")
    return found


async def put(call: Call) -> Done:
    """Save a version; what says what is there already makes no other one."""
    new = await _read(call)
    before = None
    if call.if_match is not None:
        before = (await _find(call)).number
        tags.require(call, f"workflow {new.name}", before)
    saved = (await store.put(call.database, call.workspace, [new], call.actor, activate=False))[new.name]
    tags.require_next(f"workflow {new.name}", before, saved.number, created=saved.created)
    return Done(_saved(new, saved), 201 if saved.created else 200, {"etag": tags.tag(saved.number)})


async def _read(call: Call) -> New:
    """A definition as every other door reads it."""
    (plan,) = await _plans(call, [call.body])
    if isinstance(plan, list):
        raise faulty(plan)
    definition = read_definition(call.body)
    if isinstance(definition, list):
        raise faulty(definition)
    if plan.name != call.path["name"]:
        raise faulty([Fault("$.name", "is another one than in the path")])
    return New(dict(definition), plan)


def _there(call: Call) -> Known:
    """What definitions can name."""
    config = call.served.config()
    return Known(config.channels, config.functions)


def _saved(new: New, saved: Saved) -> run_models.SavedWorkflow:
    return run_models.SavedWorkflow(new.name, saved.number, saved.created, saved.active, len(new.plan.nodes))


async def put_many(call: Call) -> Done:
    """Save all, or none."""
    given: run_models.Definitions = call.given
    paths = [f"$.workflows[{number}]" for number in range(len(given.workflows))]
    made = await _compiled(call, given.workflows, paths)
    faults = [fault for one in made if not isinstance(one, New) for fault in one]
    new = [one for one in made if isinstance(one, New)]
    first: dict[str, int] = {}
    faults += [
        Fault(f"$.workflows[{number}].name", f"another one of them is called {one.name}, too")
        for number, one in enumerate(made)
        if isinstance(one, New) and first.setdefault(one.name, number) != number
    ]
    if faults:
        raise faulty(faults)
    saved = await store.put(call.database, call.workspace, new, call.actor, activate=given.activate)
    return Done(run_models.SavedWorkflows([_saved(one, saved[one.name]) for one in new]))


async def compare(call: Call) -> Done:
    """What is wrong with definitions, and what is stored under their names. Nothing is saved."""
    given: run_models.Compare = call.given
    made = await _compiled(call, given.workflows, ["$"] * len(given.workflows))
    stored = await store.compare(call.database, call.workspace, [one for one in made if isinstance(one, New)])
    return Done(run_models.ComparedWorkflows([_compared(one, stored) for one in made]))


async def _plans(call: Call, given: Sequence[object]) -> list[Plan | list[Fault]]:
    offload, tenant_id = call.served.offload, call.workspace.tenant_id
    return await offload.call_if_heavy(tenant_id, compile_definitions, given, len(call.body), _there(call))


async def _compiled(call: Call, given: Sequence[dict[str, Any]], paths: Sequence[str]) -> list[New | list[Fault]]:
    """Each as it is saved, or its faults."""
    made: list[New | list[Fault]] = []
    for one, path, plan in zip(given, paths, await _plans(call, given), strict=True):
        if isinstance(plan, list):
            made.append([Fault(f"{path}{fault.path.removeprefix('$')}", fault.message) for fault in plan])
        else:
            made.append(New(one, plan))
    return made


def _compared(one: New | list[Fault], stored: Mapping[str, Compared]) -> run_models.ComparedWorkflow:
    if not isinstance(one, New):
        return run_models.ComparedWorkflow(faults=one)
    found = stored.get(one.name)
    return run_models.ComparedWorkflow(
        name=one.name,
        total_steps=len(one.plan.nodes),
        stored=None if found is None else run_models.StoredWorkflow(found.number, found.active, found.definition),
        same=found is not None and found.same,
    )


def _switching(verb: str, active: bool, summary: str) -> Endpoint:
    async def switch(call: Call) -> Done:
        name = (await _find(call)).name
        answer = await store.set_active(call.database, call.workspace, name, active, call.actor)
        if answer == "unknown":
            raise not_found(f"workflow {name!r}")
        return Done(run_models.Switched(name, answer))

    return Endpoint(
        operation=f"{verb}Workflow",
        method="POST",
        path=f"/workflows/{{name}}/{verb}",
        right=Right.WORKFLOWS,
        summary=summary,
        answer=run_models.Switched,
        problems=(NOT_FOUND,),
        handle=switch,
    )


async def delete(call: Call) -> Done:
    """Delete one that has no unfinished run."""
    name = (await _find(call)).name
    if call.if_match is not None and (newest := await store.keep(call.database, call.workspace, name)) is not None:
        tags.require(call, f"workflow {name}", newest)
    answer = await store.delete(call.database, call.workspace, name, call.actor)
    words = {"active": "is active and has runs: deactivate it first", "running": "has unfinished runs"}
    if answer in words:
        raise Problem(CONFLICT, f"the workflow {name} {words[answer]}", answer=answer)
    if answer == "unknown":
        raise not_found(f"workflow {name!r}")
    return Done(run_models.Switched(name, answer))


_DEFINITION = {
    "name": "order_shipped",
    "entryNodeId": "mail",
    "nodes": [
        {
            "id": "mail",
            "type": "email",
            "to": "{{ customer.email }}",
            "subject": "Order {{ order.id }}",
            "text": "Hello",
        }
    ],
    "edges": [],
}

ENDPOINTS = (
    Endpoint(
        operation="listWorkflows",
        method="GET",
        path="/workflows",
        right=Right.WORKFLOWS,
        summary="List workflows by name",
        query=run_models.WorkflowQuery,
        answer=run_models.Workflows,
        handle=list_,
    ),
    Endpoint(
        operation="getWorkflow",
        method="GET",
        path="/workflows/{name}",
        right=Right.WORKFLOWS,
        summary="Show a version of a workflow, the newest without a number",
        query=run_models.VersionQuery,
        answer=run_models.WholeWorkflow,
        problems=(NOT_FOUND,),
        handle=show,
        tagged=True,
    ),
    Endpoint(
        operation="putWorkflow",
        method="PUT",
        path="/workflows/{name}",
        right=Right.WORKFLOWS,
        summary="Save a workflow as a new version",
        description="Runs stay on the version that they began with. What is saved already makes no other version. A "
        "new workflow takes no triggers before it is activated.",
        given=run_models.Definition,
        example=_DEFINITION,
        answer=run_models.SavedWorkflow,
        status=201,
        problems=(NOT_FOUND, CHANGED),
        handle=put,
        makes=("name", "name"),
        reads_itself=True,
        tagged=True,
    ),
    Endpoint(
        operation="putWorkflows",
        method="POST",
        path="/workflows",
        right=Right.WORKFLOWS,
        summary="Save many workflows as new versions, or none of them",
        given=run_models.Definitions,
        example={"workflows": [_DEFINITION | {"name": "order_packed"}], "activate": True},
        answer=run_models.SavedWorkflows,
        handle=put_many,
        large=True,
    ),
    Endpoint(
        operation="compareWorkflows",
        method="POST",
        path="/workflow-comparison",
        right=Right.WORKFLOWS,
        summary="Find what is wrong with workflows, and what is stored under their names",
        description="Nothing is saved. Each is answered by itself, in the order in which they were given.",
        given=run_models.Compare,
        example={"workflows": [_DEFINITION]},
        answer=run_models.ComparedWorkflows,
        handle=compare,
        large=True,
    ),
    Endpoint(
        operation="deleteWorkflow",
        method="DELETE",
        path="/workflows/{name}",
        right=Right.WORKFLOWS,
        summary="Delete a workflow that has no unfinished run, and is not active where it ever had any",
        answer=run_models.Switched,
        problems=(NOT_FOUND, CONFLICT, CHANGED),
        handle=delete,
        tagged=True,
    ),
    _switching("activate", True, "Let a workflow take triggers"),
    _switching("deactivate", False, "Let a workflow take no triggers any more"),
)
