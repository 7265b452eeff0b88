"""Workflows over HTTP: saving versions, looking at them, and letting them take triggers or none any more."""

from dispatcher.api import run_models, tags
from dispatcher.api.cursors import after
from dispatcher.api.endpoints import Call, Done, Endpoint
from dispatcher.api.listing import by_name, page
from dispatcher.api.problems import CHANGED, CONFLICT, NOT_FOUND, Problem, faulty, not_found
from dispatcher.domain.plans.definition import Known, compile_definition, read_definition
from dispatcher.domain.roles import Right
from dispatcher.errors import Fault
from dispatcher.store import workflows as store
from dispatcher.store.workflows import Found, New

NOUN = "workflows"


async def list_(call: Call) -> Done:
    """By name."""
    asked: run_models.WorkflowQuery = call.query
    rows = await store.listed(call.database, call.workspace, after(NOUN, asked.cursor), asked.limit + 1)
    return Done(run_models.Workflows(*page(rows, asked.limit, run_models.Workflow, by_name(NOUN))))


async def show(call: Call) -> Done:
    """The newest version of one."""
    found = await _find(call)
    whole = run_models.WholeWorkflow(
        name=found.name,
        active=found.active,
        version=found.number,
        total_steps=found.total_steps,
        author=found.author,
        created_at=found.created_at,
        definition=found.definition,
    )
    return Done(whole, headers={"etag": tags.tag(found.number)})


async def _find(call: Call) -> Found:
    name = call.path["name"]
    found = None if "\0" in name else await store.find(call.database, call.workspace, name)
    if found is None:
        raise not_found(f"workflow {name[:101]!r}")
    return found


async def put(call: Call) -> Done:
    """Save a version; what says what is there already makes no other one."""
    new = _read(call)
    before = None
    if call.if_match is not None:
        before = (await _find(call)).number
        tags.require(call, f"workflow {new.name}", before)
    saved = (await store.put(call.database, call.workspace, [new], call.actor, activate=False))[new.name]
    tags.require_next(f"workflow {new.name}", before, saved.number, created=saved.created)
    answer = run_models.SavedWorkflow(new.name, saved.number, saved.created, saved.active)
    return Done(answer, 201 if saved.created else 200, {"etag": tags.tag(saved.number)})


def _read(call: Call) -> New:
    """A definition as every other door reads it."""
    config = call.served.config()
    there = Known(config.channels, {name: function.idempotent for name, function in config.functions.items()})
    plan = compile_definition(call.body, there)
    if isinstance(plan, list):
        raise faulty(plan)
    definition = read_definition(call.body)
    if isinstance(definition, list):
        raise faulty(definition)
    if plan.name != call.path["name"]:
        raise faulty([Fault("$.name", "is another one than in the path")])
    return New(dict(definition), plan)


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
    answer = await store.delete(call.database, call.workspace, name, call.actor)
    words = {"active": "is active and has runs: deactivate it first", "running": "has unfinished runs"}
    if answer in words:
        raise Problem(CONFLICT, f"the workflow {name} {words[answer]}")
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
        summary="Show the newest version of a workflow",
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
        operation="deleteWorkflow",
        method="DELETE",
        path="/workflows/{name}",
        right=Right.WORKFLOWS,
        summary="Delete a workflow that has no unfinished run, and is not active where it ever had any",
        answer=run_models.Switched,
        problems=(NOT_FOUND, CONFLICT),
        handle=delete,
    ),
    _switching("activate", True, "Let a workflow take triggers"),
    _switching("deactivate", False, "Let a workflow take no triggers any more"),
)
