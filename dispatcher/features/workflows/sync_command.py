"""The `workflows sync` command: save a folder of definitions, or compare it with what is stored."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.folders import Compared, paths_of, show_differences, show_others, show_saved
from dispatcher.features.workflows import endpoints
from dispatcher.features.workflows.files import SUFFIXES, WorkflowFile, compare, read_all
from dispatcher.features.workflows.models import DEFINITIONS_MAX, SavedWorkflows
from dispatcher.plans.definition.difference import difference

_FILES = ", ".join(f"*{suffix}" for suffix in SUFFIXES)


def sync(
    caller: Caller,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help=f"Its files {_FILES}, one a workflow.")],
    *,
    check: Annotated[bool, typer.Option("--check", help="Only show what differs; then the exit code is 1.")] = False,
    activate: Annotated[bool, typer.Option("--activate", help="Let all of them take triggers, too.")] = False,
) -> None:
    """Save every workflow of a folder, or nothing where any of them has a fault.

    What is stored and not in the folder is named and left alone.
    """
    files = {one.name: one for one in compare(caller, read_all(paths_of(folder, SUFFIXES, DEFINITIONS_MAX)))}
    compared = [_compared(one, activate) for one in files.values()]
    others = set(caller.names(endpoints.list_workflows)) - set(files)
    show_others(caller, sorted(others))
    if check:
        show_differences(caller, compared, lambda one: _difference(files[one.name], one))
        return
    body = {"workflows": [one.definition for one in files.values()], "activate": activate}
    saved: SavedWorkflows = caller.ask(endpoints.put_workflows, body=body)
    show_saved(
        caller,
        "workflow",
        "active",
        [
            (one, done.version, {"activated": one.waits, "active": done.active})
            for one, done in zip(compared, saved.workflows, strict=True)
        ],
    )


def _compared(one: WorkflowFile, activate: bool) -> Compared:
    waits = activate and (one.stored is None or not one.stored.active)
    return Compared(one.name, one.path, not one.same, waits)


def _difference(file: WorkflowFile, one: Compared) -> tuple[Mapping[str, object], str]:
    """Return what a sync would change, as a record and in lines."""
    # A plan also differs if a function that it calls does; then the definitions are equal.
    changes = [] if file.stored is None else difference(file.stored.definition, file.definition)
    is_stored = file.stored is not None
    record = {"stored": is_stored, "differs": one.differs, "activates": one.waits, "changes": changes}
    if not is_stored:
        return record, f"{file.name}: is not stored ({file.path})"
    lines = [str(change) for change in changes]
    if one.differs and not lines:
        lines = ["says the same, and means another plan since it was saved"]
    if one.waits:
        lines.append("is not active")
    return record, "\n".join(f"{file.name}: {line}" for line in lines)
