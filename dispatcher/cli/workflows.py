"""The `workflows` commands: definitions saved as versions, looked at, compared, and whether they take triggers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from dispatcher.cli.commands import command, group
from dispatcher.cli.failures import FAILED
from dispatcher.cli.operating import Actor, require_after, second, who
from dispatcher.cli.program import launcher
from dispatcher.cli.session import Session
from dispatcher.cli.template_work import InWorkspace, Number, Tenant, place
from dispatcher.cli.voice import plain
from dispatcher.cli.workflow_file import FILES_MAX, SUFFIXES, Written, compare, read_all
from dispatcher.cli.workflow_sync import sync
from dispatcher.cli.workflow_work import Workflow, missing, require
from dispatcher.domain.plans.difference import difference
from dispatcher.doors.nouns import Version
from dispatcher.store.templates import NUMBER_MAX
from dispatcher.store.workflows import Saved

LIMIT_MAX = 10_000

app = group(help="Save workflows, look at them, and let them take triggers.")
command(app, "sync")(sync)

Files = Annotated[list[Path], typer.Argument(metavar="FILE...", help="Definitions, YAML or JSON.")]


@command(app, "put")
def put(
    session: Session,
    files: Files,
    *,
    activate: Annotated[bool, typer.Option("--activate", help="Let them take triggers as well.")] = False,
    actor: Actor = None,
    tenant: Tenant = None,
    workspace: InWorkspace = None,
) -> None:
    """Save workflows from files, each as another version where it says something else.

    Nothing is saved where any of them has a fault; each fault of each is named with its path. Runs that are under way
    stay on their version.
    """
    by, here = who(session, actor), place(tenant, workspace)
    if len(files) > FILES_MAX:
        raise typer.BadParameter(f"are {len(files)}, over {FILES_MAX}", param_hint="FILE")
    read = read_all([(path, str(path)) for path in files])
    with session.doors() as doors:
        written = compare(session, doors, here, read)
        definitions = [one.definition for one in written]
        saved = session.run(lambda: doors.workflows.put(here, definitions, by, activate=activate))
    for one in written:
        _tell(session, one, saved[one.name])


def _tell(session: Session, one: Written, saved: Saved) -> None:
    if session.voice.as_json:
        session.voice.record(
            {
                "name": one.name,
                "file": one.path,
                "version": saved.number,
                "created": saved.created,
                "active": saved.active,
                "total_steps": one.compared.total_steps,
            }
        )
        return
    what = "is saved" if saved.created else "says this already"
    state = (
        "it takes triggers" if saved.active else f"`{launcher()} workflows activate {one.name}` lets it take triggers"
    )
    session.voice.text(plain(f"workflow {one.name}: version {saved.number} {what}; {state}"))


@command(app, "list")
def list_(
    session: Session,
    *,
    limit: Annotated[int, typer.Option(min=1, max=LIMIT_MAX, help="How many.")] = 100,
    after: Annotated[str, typer.Option(metavar="NAME", help="Only those after this one.")] = "",
    tenant: Tenant = None,
    workspace: InWorkspace = None,
) -> None:
    """List workflows by name."""
    here = place(tenant, workspace)
    require_after(after)
    with session.doors() as doors:
        found = session.run(lambda: doors.workflows.listed(here, after, limit))
    if session.voice.as_json:
        for row in found:
            session.voice.record(row)
    elif found:
        session.voice.table(("name", "active", "version", "steps", "newest run", "by", "at"), map(_cells, found))
        if len(found) == limit:
            session.voice.say(f"further ones: --after {found[-1]['name']}")
    else:
        session.voice.text("There are no workflows.")


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    active = "yes" if row["active"] else "no"
    steps, run = row["total_steps"], row["newest_run"]
    return row["name"], active, row["version"], steps, run, row["author"], second(row["created_at"])


@command(app, "show")
def show(
    session: Session,
    name: Workflow,
    *,
    version: Number = None,
    graph: Annotated[bool, typer.Option("--graph", help="Only the graph, drawn.")] = False,
    as_mermaid: Annotated[bool, typer.Option("--mermaid", help="Only the graph, as Mermaid.")] = False,
    definition: Annotated[bool, typer.Option("--definition", help="Only the definition, as JSON.")] = False,
    tenant: Tenant = None,
    workspace: InWorkspace = None,
) -> None:
    """Show a version: what it does, what a trigger has to bring, its fellows, and who did what to it."""
    if graph + as_mermaid + definition > 1:
        raise typer.BadParameter("name one of them", param_hint="--graph, --mermaid, --definition")
    here = place(tenant, workspace)
    with session.doors() as doors:
        found = require(session, doors, here, name, version)
    if definition:
        session.voice.content(msgspec.json.format(msgspec.json.encode(found.definition), indent=2).decode())
    elif session.voice.as_json:
        session.voice.record(_record(found))
    elif graph or as_mermaid:
        session.voice.content(found.graph if graph else found.mermaid)
    else:
        _show_all(session, found)


def _show_all(session: Session, found: Version) -> None:
    templates = dict.fromkeys(map(_template, found.templates))
    facts = (
        ("version", f"{found.number} of {found.latest}, by {found.author}, {second(found.created_at)}"),
        ("active", "yes" if found.active else "no"),
        ("required fields", ", ".join(found.required_fields) or "none"),
        ("reads", ", ".join(found.reads) or "nothing"),
        ("stored templates", ", ".join(templates) or "none"),
    )
    session.voice.table(("workflow", found.name), facts)
    session.voice.text()
    nodes = ((one.step, one.node, one.what) for one in found.steps)
    session.voice.table(("step", "node", "what it does"), nodes)
    session.voice.text()
    rows = ((row["number"], row["total_steps"], row["author"], second(row["created_at"])) for row in found.versions)
    session.voice.table(("version", "steps", "by", "at"), rows)
    session.voice.text()
    done = ((second(row["at"]), row["action"], row["version"], row["actor"]) for row in found.actions)
    session.voice.table(("at", "what was done", "version", "by"), done)


def _template(one: Mapping[str, Any]) -> str:
    """The name of a stored template, or where it stands."""
    return str(one.get("name") or f"as {one.get('variable', {}).get('path', '?')} says")


def _record(found: Version) -> dict[str, object]:
    return {
        "name": found.name,
        "version": found.number,
        "latest": found.latest,
        "active": found.active,
        "total_steps": found.total_steps,
        "required_fields": found.required_fields,
        "reads": found.reads,
        "templates": found.templates,
        "author": found.author,
        "created_at": found.created_at,
        "definition": found.definition,
        "graph": found.graph,
        "mermaid": found.mermaid,
        "versions": found.versions,
        "actions": found.actions,
    }


@command(app, "activate")
def activate(
    session: Session,
    name: Workflow,
    actor: Actor = None,
    tenant: Tenant = None,
    workspace: InWorkspace = None,
) -> None:
    """Let a workflow take triggers."""
    _set_active(session, name, True, actor, tenant, workspace)


@command(app, "deactivate")
def deactivate(
    session: Session,
    name: Workflow,
    actor: Actor = None,
    tenant: Tenant = None,
    workspace: InWorkspace = None,
) -> None:
    """Let a workflow take no more triggers. Runs that are under way go on."""
    _set_active(session, name, False, actor, tenant, workspace)


def _set_active(
    session: Session, name: str, active: bool, actor: str | None, tenant: str | None, workspace: str | None
) -> None:
    by, here = who(session, actor), place(tenant, workspace)
    with session.doors() as doors:
        answer = session.run(lambda: doors.workflows.set_active(here, name, active, by))
        if answer == "unknown":
            missing(session, doors, here, name)
    if session.voice.as_json:
        session.voice.record({"name": name, "active": active, "changed": answer == "done"})
        return
    already = " already" if answer == "same" else ""
    words = f"takes triggers{already}" if active else f"takes no more triggers{already}"
    session.voice.text(plain(f"workflow {name} {words}"))


REFUSALS = {
    "active": "is active and has runs: deactivate it first",
    "running": "has unfinished runs: let them end, or cancel them",
}


@command(app, "delete")
def delete(
    session: Session,
    name: Workflow,
    actor: Actor = None,
    tenant: Tenant = None,
    workspace: InWorkspace = None,
) -> None:
    """Delete a workflow; what its runs did stays.

    Refused while it has unfinished runs, and while it is active and has any.
    """
    by, here = who(session, actor), place(tenant, workspace)
    with session.doors() as doors:
        answer = session.run(lambda: doors.workflows.delete(here, name, by))
        if answer == "unknown":
            missing(session, doors, here, name)
    if answer in REFUSALS:
        session.voice.fail("NotDeleted", f"workflow {name} {REFUSALS[answer]}")
        raise typer.Exit(FAILED)
    if session.voice.as_json:
        session.voice.record({"name": name, "deleted": True})
    else:
        session.voice.text(plain(f"workflow {name} is deleted"))


@command(app, "diff")
def diff(
    session: Session,
    what: Annotated[str, typer.Argument(metavar="NAME|FILE")],
    *,
    old: Annotated[
        int | None, typer.Option("--from", min=1, max=NUMBER_MAX, help="From which version; the one before.")
    ] = None,
    new: Annotated[
        int | None, typer.Option("--to", min=1, max=NUMBER_MAX, help="To which version; the newest.")
    ] = None,
    tenant: Tenant = None,
    workspace: InWorkspace = None,
) -> None:
    """Show what differs between two versions, or between the newest version and a file."""
    here = place(tenant, workspace)
    file = Path(what)
    is_file = what.endswith(SUFFIXES) and file.exists()
    if is_file and new is not None:
        raise typer.BadParameter("a file stands in its place", param_hint="--to")
    read = read_all([(file, what)] if is_file else [])
    with session.doors() as doors:
        if is_file:
            (written,) = compare(session, doors, here, read)
            name, after, right = written.name, written.definition, what
            before = require(session, doors, here, name, old)
        else:
            newest = require(session, doors, here, what, new)
            name, after, right = what, newest.definition, f"version {newest.number}"
            before = require(session, doors, here, name, old or max(newest.number - 1, 1))
    changes = difference(before.definition, after)
    if session.voice.as_json:
        record = {"name": name, "from": before.number, "to": right, "differs": bool(changes), "changes": changes}
        session.voice.record(record)
    elif changes:
        session.voice.content("\n".join(map(str, changes)))
    else:
        session.voice.text(plain(f"{name} version {before.number} and {right} say the same"))
