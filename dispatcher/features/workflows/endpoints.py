"""The endpoints of workflows: save, list, show, compare, activate, deactivate and delete them."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import structs

from dispatcher.base.errors import Fault
from dispatcher.features.workflows import models, store
from dispatcher.features.workflows.store import Found, New
from dispatcher.http import etags
from dispatcher.http.cursors import read_name
from dispatcher.http.endpoints import Call, Done, endpoint
from dispatcher.http.listing import by_name, page
from dispatcher.http.problems import CHANGED, CONFLICT, NOT_FOUND, Problem, faulty, not_found
from dispatcher.http.roles import Right
from dispatcher.plans.definition import reference
from dispatcher.plans.definition.definition import Known, read_definition
from dispatcher.plans.drawing.mermaid import mermaid
from dispatcher.plans.drawing.terminal import drawing
from dispatcher.plans.plan import Plan
from dispatcher.plans.worker_functions import compile_definitions

NOUN = "workflows"
# The versions and actions in the answer about a workflow.
SHOWN_MAX = 20

_RIGHT = Right.WORKFLOWS
_NOT_DELETED = {
    "active": "is active and has runs: deactivate it first",
    "running": "has unfinished runs: let them end, or cancel them",
}
_PATH = "/workflows/{name}"
_MAIL = {
    "id": "mail",
    "type": "email",
    "to": "{{ customer.email }}",
    "subject": "Order {{ order.id }}",
    "text": "Hello",
}
_DEFINITION = {"name": "order_shipped", "entryNodeId": "mail", "nodes": [_MAIL], "edges": []}


@endpoint("GET", "/workflows", _RIGHT, query=models.WorkflowQuery, answered=models.WORKFLOWS)
async def list_workflows(call: Call) -> Done:
    """List workflows by name."""
    asked: models.WorkflowQuery = call.query
    start = read_name(NOUN, asked.cursor) or asked.after or ""
    rows = await store.listed(call.database, call.workspace, start, asked.limit + 1, active=asked.active)
    return Done(models.Workflows(*page(rows, asked.limit, models.Workflow, by_name(NOUN))))


@endpoint(
    "GET",
    _PATH,
    _RIGHT,
    query=models.VersionQuery,
    answered=models.WHOLE_WORKFLOW,
    problems=(NOT_FOUND,),
    tagged=True,
)
async def get_workflow(call: Call) -> Done:
    """Show a version of a workflow, the newest without a number."""
    found = await _find(call, call.query.version)
    facts = structs.asdict(found) | {
        "version": found.number,
        "reads": [one.path for one in found.reads],
        "templates": msgspec.to_builtins(found.templates),
        "steps": store.steps(found.plan),
        "graph": drawing(found.plan),
        "mermaid": mermaid(found.plan),
        "versions": await store.versions(call.database, found.id, SHOWN_MAX),
        "actions": await store.actions(call.database, found.id, SHOWN_MAX),
    }
    return Done(msgspec.convert(facts, models.WholeWorkflow), headers={"etag": etags.tag(found.number)})


async def _find(call: Call, number: int | None = None) -> Found:
    name = call.named("workflow")
    found = await store.find(call.database, call.workspace, name, number)
    if found is not None:
        return found
    if number is None:
        raise not_found(f"workflow {name}")
    newest = await _find(call)
    raise Problem(NOT_FOUND, f"workflow {name} has no version {number}; its newest is {newest.latest}")


@endpoint(
    "PUT",
    _PATH,
    _RIGHT,
    given=models.Definition,
    example=_DEFINITION,
    answered=models.SAVED_WORKFLOW,
    status=201,
    problems=(NOT_FOUND, CHANGED),
    makes=("name", "name"),
    reads_itself=True,
    tagged=True,
    schemas=reference.SCHEMAS,
)
async def put_workflow(call: Call) -> Done:
    """Save a workflow as a new version.

    Runs stay on the version that they began with. What is saved already makes no other version. A new workflow
    takes no triggers before it is activated.
    """
    new = await _read(call)
    before = None
    if call.if_match is not None:
        before = (await _find(call)).number
        etags.require(call, f"workflow {new.name}", before)
    saved = (await store.put(call.database, call.workspace, [new], call.actor, activate=False))[new.name]
    etags.require_next(f"workflow {new.name}", before, saved.version, created=saved.created)
    return Done(saved, 201 if saved.created else 200, {"etag": etags.tag(saved.version)})


async def _read(call: Call) -> New:
    """Return the definition in the body, with its plan."""
    (plan,) = await _plans(call, [call.body])
    if isinstance(plan, list):
        raise faulty(plan)
    definition = read_definition(call.body)
    if isinstance(definition, list):
        raise faulty(definition)
    if plan.name != call.path["name"]:
        raise faulty([Fault("$.name", f"is {plan.name}, and the path names {call.path['name']}: use one name")])
    return New(dict(definition), plan)


@endpoint(
    "POST",
    "/workflows",
    _RIGHT,
    given=models.Definitions,
    example={"workflows": [_DEFINITION | {"name": "order_packed"}], "activate": True},
    answered=models.SAVED_WORKFLOWS,
    large=True,
)
async def put_workflows(call: Call) -> Done:
    """Save many workflows as new versions, or none of them."""
    given: models.Definitions = call.given
    paths = [f"$.workflows[{number}]" for number in range(len(given.workflows))]
    made = await _compiled(call, given.workflows, paths)
    faults = [fault for one in made if not isinstance(one, New) for fault in one]
    new = [one for one in made if isinstance(one, New)]
    first: dict[str, int] = {}
    faults += [
        Fault(f"$.workflows[{number}].name", f"another definition has the name {one.name}, too")
        for number, one in enumerate(made)
        if isinstance(one, New) and first.setdefault(one.name, number) != number
    ]
    if faults:
        raise faulty(faults)
    saved = await store.put(call.database, call.workspace, new, call.actor, activate=given.activate)
    return Done(models.SavedWorkflows([saved[one.name] for one in new]))


@endpoint(
    "POST",
    "/workflow-comparison",
    _RIGHT,
    given=models.Compare,
    example={"workflows": [_DEFINITION]},
    answered=models.COMPARED_WORKFLOWS,
    large=True,
)
async def compare_workflows(call: Call) -> Done:
    """Find what is wrong with workflows, and what is stored under their names.

    Nothing is saved. Each is answered by itself, in the order in which they were given.
    """
    given: models.Compare = call.given
    made = await _compiled(call, given.workflows, ["$"] * len(given.workflows))
    stored = await store.compare(call.database, call.workspace, [one for one in made if isinstance(one, New)])
    compared = [
        models.ComparedWorkflow(name=one.name, total_steps=len(one.plan.nodes), **stored.get(one.name, {}))
        if isinstance(one, New)
        else models.ComparedWorkflow(faults=one)
        for one in made
    ]
    return Done(models.ComparedWorkflows(compared))


async def _plans(call: Call, given: Sequence[object]) -> list[Plan | list[Fault]]:
    config, offload = call.served.config(), call.served.offload
    known = Known(config.channels, config.functions)
    return await offload.call_if_heavy(call.workspace.tenant_id, compile_definitions, given, len(call.body), known)


async def _compiled(call: Call, given: Sequence[dict[str, Any]], paths: Sequence[str]) -> list[New | list[Fault]]:
    """Return each definition with its plan, or its faults."""
    return [
        [Fault(f"{path}{fault.path.removeprefix('$')}", fault.message) for fault in plan]
        if isinstance(plan, list)
        else New(one, plan)
        for one, path, plan in zip(given, paths, await _plans(call, given), strict=True)
    ]


@endpoint("POST", f"{_PATH}/activate", _RIGHT, answered=models.SWITCHED, problems=(NOT_FOUND,))
async def activate_workflow(call: Call) -> Done:
    """Let a workflow take triggers."""
    return await _switched(call, active=True)


@endpoint("POST", f"{_PATH}/deactivate", _RIGHT, answered=models.SWITCHED, problems=(NOT_FOUND,))
async def deactivate_workflow(call: Call) -> Done:
    """Let a workflow take no triggers any more."""
    return await _switched(call, active=False)


async def _switched(call: Call, *, active: bool) -> Done:
    name = (await _find(call)).name
    answer = await store.set_active(call.database, call.workspace, name, active, call.actor)
    if answer == "unknown":
        raise not_found(f"workflow {name}")
    return Done(models.Switched(name, answer))


@endpoint(
    "DELETE",
    _PATH,
    _RIGHT,
    answered=models.SWITCHED,
    problems=(NOT_FOUND, CONFLICT, CHANGED),
    tagged=True,
)
async def delete_workflow(call: Call) -> Done:
    """Delete a workflow that has no unfinished run, and is not active where it ever had any."""
    name = (await _find(call)).name
    if (
        call.if_match is not None
        and (newest := await store.lock_version(call.database, call.workspace, name)) is not None
    ):
        etags.require(call, f"workflow {name}", newest)
    answer = await store.delete(call.database, call.workspace, name, call.actor)
    if answer in _NOT_DELETED:
        raise Problem(CONFLICT, f"the workflow {name} {_NOT_DELETED[answer]}", answer=answer)
    if answer == "unknown":
        raise not_found(f"workflow {name}")
    return Done(models.Switched(name, answer))
