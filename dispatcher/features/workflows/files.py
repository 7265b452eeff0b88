"""Workflow files: definitions as teams keep them in git, YAML or JSON, one file each."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from dispatcher.base.errors import Fault, WorkflowRefused
from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.folders import content_of, same_names
from dispatcher.features.workflows import endpoints
from dispatcher.features.workflows.models import ComparedWorkflow, ComparedWorkflows, StoredWorkflow
from dispatcher.plans.definition.definition import read_definition

SUFFIXES = (".yaml", ".yml", ".json")
# The compiler names its own limit, and more that is wrong, up to here; nobody writes a file of this size by hand.
FILE_BYTES_MAX = 9 * 1024 * 1024


class Read(Struct, frozen=True):
    """A file as it is: the definition that it has, or why it has none."""

    path: str
    definition: Mapping[str, Any] | None
    faults: Sequence[Fault] = ()


class Written(Struct, frozen=True):
    """A sound workflow as its file has it, beside what is stored under its name."""

    path: str
    name: str
    definition: Mapping[str, Any]
    total_steps: int
    stored: StoredWorkflow | None
    same: bool


def read_all(paths: Iterable[tuple[Path, str]]) -> list[Read]:
    """The definitions of files, each with how it is shown."""
    return [_read(path, shown) for path, shown in paths]


def _read(path: Path, shown: str) -> Read:
    content = content_of(path, FILE_BYTES_MAX)
    if isinstance(content, str):
        return Read(shown, None, [Fault(shown, content)])
    definition = read_definition(content)
    if isinstance(definition, list):
        return Read(shown, None, _of(shown, definition))
    return Read(shown, definition)


def compare(caller: Caller, files: Sequence[Read]) -> list[Written]:
    """The workflows of files; WorkflowRefused names the faults of all of them. Nothing is saved."""
    given = [one.definition for one in files if one.definition is not None]
    compared: list[ComparedWorkflow] = []
    if given:
        answer: ComparedWorkflows = caller.ask(endpoints.compare_workflows, body={"workflows": given})
        compared = answer.workflows
    answers = iter(compared)
    written: list[Written] = []
    faults: list[Fault] = []
    for one in files:
        if one.definition is None:
            faults += one.faults
            continue
        found = next(answers)
        faults += _of(one.path, found.faults)
        if not found.faults:
            written.append(
                Written(one.path, found.name or "", one.definition, found.total_steps, found.stored, found.same)
            )
    faults += (Fault(f"{path}: $.name", words) for path, words in same_names((one.name, one.path) for one in written))
    if faults:
        raise WorkflowRefused(faults)
    return written


def _of(path: str, faults: Iterable[Fault]) -> list[Fault]:
    return [Fault(f"{path}: {fault.path}", fault.message) for fault in faults]
