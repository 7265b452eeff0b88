"""The `workflows` commands: save, list, show, compare, activate, deactivate and delete workflows."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.commands import Version, command, group, version_option
from dispatcher.cli.options import name_given, second
from dispatcher.cli.terminal.launcher import launcher
from dispatcher.cli.terminal.output import cell, show_list, tell
from dispatcher.features.workflows import endpoints
from dispatcher.features.workflows.files import SUFFIXES, WorkflowFile, compare, read_all
from dispatcher.features.workflows.models import (
    DEFINITIONS_MAX,
    SavedWorkflow,
    SavedWorkflows,
    Switched,
    WholeWorkflow,
    Workflow,
)
from dispatcher.features.workflows.sync_command import sync
from dispatcher.plans.definition.difference import difference

app = group(help="Save workflows, look at them, and let them take triggers.")
command(app, "sync", acts=True)(sync)

Files = Annotated[list[Path], typer.Argument(metavar="FILE...", help="Definitions, YAML or JSON.")]
Name = Annotated[str, typer.Argument(metavar="WORKFLOW", callback=name_given)]


@command(app, "put", acts=True)
def put(
    caller: Caller,
    files: Files,
    *,
    activate: Annotated[bool, typer.Option("--activate", help="Let them take triggers as well.")] = False,
) -> None:
    """Save workflows from files, each as another version where it says something else.

    Nothing is saved where any of them has a fault; each fault of each is named with its path. Runs that are under way
    stay on their version.
    """
    if len(files) > DEFINITIONS_MAX:
        raise typer.BadParameter(f"{len(files)} files, over {DEFINITIONS_MAX}: use several commands", param_hint="FILE")
    written = compare(caller, read_all((path, str(path)) for path in files))
    body = {"workflows": [one.definition for one in written], "activate": activate}
    answer: SavedWorkflows = caller.ask(endpoints.put_workflows, body=body)
    for one, saved in zip(written, answer.workflows, strict=True):
        _tell(caller, one, saved)


def _tell(caller: Caller, one: WorkflowFile, saved: SavedWorkflow) -> None:
    what = "is saved" if saved.created else "says this already"
    state = (
        "it takes triggers" if saved.active else f"`{launcher()} workflows activate {one.name}` lets it take triggers"
    )
    record = msgspec.structs.asdict(saved) | {"file": one.path}
    tell(caller, record, f"workflow {one.name}: version {saved.version} {what}; {state}")


@command(app, "list", limit=100)
def list_(caller: Caller) -> None:
    """List workflows by name."""
    columns = ("name", "active", "version", "steps", "newest run", "by", "at")
    show_list(caller, caller.listed(endpoints.list_workflows), columns, _cells, "There are no workflows.")


def _cells(row: Workflow) -> tuple[object, ...]:
    at = second(row.created_at)
    return row.name, cell(row.active), row.version, row.total_steps, row.newest_run, row.author, at


@command(app, "show")
def show(
    caller: Caller,
    name: Name,
    *,
    version: Version = None,
    graph: Annotated[bool, typer.Option("--graph", help="Only the graph, drawn.")] = False,
    as_mermaid: Annotated[bool, typer.Option("--mermaid", help="Only the graph, as Mermaid.")] = False,
    definition: Annotated[bool, typer.Option("--definition", help="Only the definition, as JSON.")] = False,
) -> None:
    """Show a version: its graph, the variables that a trigger has to bring, other versions, and actions."""
    if graph + as_mermaid + definition > 1:
        raise typer.BadParameter("use only one of these options", param_hint="--graph, --mermaid, --definition")
    found = _get(caller, name, version)
    if definition:
        caller.output.content(msgspec.json.format(msgspec.json.encode(found.definition), indent=2).decode())
    elif caller.output.as_json:
        shown = msgspec.structs.asdict(found)
        del shown["steps"], shown["newest_run"]
        caller.output.record(shown)
    elif graph or as_mermaid:
        caller.output.content(found.graph if graph else found.mermaid)
    else:
        _show_all(caller, found)


def _show_all(caller: Caller, found: WholeWorkflow) -> None:
    templates = dict.fromkeys(map(_template, found.templates))
    facts = (
        ("version", f"{found.version} of {found.latest}, by {found.author}, {second(found.created_at)}"),
        ("active", cell(found.active)),
        ("required fields", ", ".join(found.required_fields) or "none"),
        ("reads", ", ".join(found.reads) or "nothing"),
        ("stored templates", ", ".join(templates) or "none"),
    )
    caller.output.table(("workflow", found.name), facts)
    nodes = ((one.step, one.node, one.what) for one in found.steps)
    versions = ((row.number, row.total_steps, row.author, second(row.created_at)) for row in found.versions)
    actions = ((second(row.at), row.action, row.version, row.actor) for row in found.actions)
    for columns, rows in (
        (("step", "node", "what it does"), nodes),
        (("version", "steps", "by", "at"), versions),
        (("at", "what was done", "version", "by"), actions),
    ):
        caller.output.text()
        caller.output.table(columns, rows)


def _template(one: Mapping[str, Any]) -> str:
    """Return the name of a stored template, or of the variable that names it."""
    return str(one.get("name") or f"as {one.get('variable', {}).get('path', '?')} says")


@command(app, "activate", acts=True)
def activate(caller: Caller, name: Name) -> None:
    """Let a workflow take triggers."""
    with caller.hinted(endpoints.list_workflows, name):
        done: Switched = caller.ask(endpoints.activate_workflow, name)
    _switched(caller, done, "takes triggers", active=True)


@command(app, "deactivate", acts=True)
def deactivate(caller: Caller, name: Name) -> None:
    """Let a workflow take no more triggers. Runs that are under way go on."""
    with caller.hinted(endpoints.list_workflows, name):
        done: Switched = caller.ask(endpoints.deactivate_workflow, name)
    _switched(caller, done, "takes no more triggers", active=False)


def _switched(caller: Caller, done: Switched, words: str, *, active: bool) -> None:
    already = " already" if done.answer == "same" else ""
    record = {"name": done.name, "active": active, "changed": done.answer == "done"}
    tell(caller, record, f"workflow {done.name} {words}{already}")


@command(app, "delete", acts=True)
def delete(caller: Caller, name: Name) -> None:
    """Delete a workflow; what its runs did stays.

    Refused while it has unfinished runs, and while it is active and has any.
    """
    with caller.hinted(endpoints.list_workflows, name):
        caller.ask(endpoints.delete_workflow, name)
    tell(caller, {"name": name, "deleted": True}, f"workflow {name} is deleted")


@command(app, "diff")
def diff(
    caller: Caller,
    what: Annotated[str, typer.Argument(metavar="NAME|FILE")],
    *,
    old: Annotated[int | None, version_option("--from", "From which version; the one before.")] = None,
    new: Annotated[int | None, version_option("--to", "To which version; the newest.")] = None,
) -> None:
    """Show what differs between two versions, or between the newest version and a file."""
    file = Path(what)
    is_file = what.endswith(SUFFIXES) and file.exists()
    if is_file and new is not None:
        raise typer.BadParameter("cannot be used with a file, which is the new version", param_hint="--to")
    if is_file:
        (written,) = compare(caller, read_all([(file, what)]))
        name, after, right = written.name, written.definition, what
        before = _get(caller, name, old)
    else:
        newest = _get(caller, what, new)
        name, after, right = what, newest.definition, f"version {newest.version}"
        before = _get(caller, name, old or max(newest.version - 1, 1))
    changes = difference(before.definition, after)
    if changes and not caller.output.as_json:
        caller.output.content("\n".join(map(str, changes)))
        return
    record = {"name": name, "from": before.version, "to": right, "differs": bool(changes), "changes": changes}
    tell(caller, record, f"{name} version {before.version} and {right} say the same")


def _get(caller: Caller, name: str, version: int | None) -> WholeWorkflow:
    with caller.hinted(endpoints.list_workflows, name):
        found: WholeWorkflow = caller.ask(endpoints.get_workflow, name, version=version)
    return found
