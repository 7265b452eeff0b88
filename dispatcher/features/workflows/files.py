"""Workflow files: YAML or JSON, one definition each."""

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
# Above the compiler's own limit, which it reports with other faults; no file written by hand is so large.
FILE_BYTES_MAX = 9 * 1024 * 1024


class FileContent(Struct, frozen=True):
    """A file with its definition, or with the faults that keep it from being read."""

    path: str
    definition: Mapping[str, Any]
    faults: Sequence[Fault] = ()


class WorkflowFile(Struct, frozen=True):
    """A valid definition in a file, beside what is stored under its name."""

    path: str
    name: str
    definition: Mapping[str, Any]
    stored: StoredWorkflow | None
    same: bool


def read_all(paths: Iterable[tuple[Path, str]]) -> list[FileContent]:
    """Return the definitions of files, each under the path that is shown."""
    return [_read(path, shown) for path, shown in paths]


def _read(path: Path, shown: str) -> FileContent:
    content = content_of(path, FILE_BYTES_MAX)
    if isinstance(content, str):
        return FileContent(shown, {}, [Fault(shown, content)])
    definition = read_definition(content)
    if isinstance(definition, list):
        return FileContent(shown, {}, _in_file(shown, definition))
    return FileContent(shown, definition)


def compare(caller: Caller, files: Sequence[FileContent]) -> list[WorkflowFile]:
    """Return the workflows of files. Raises WorkflowRefused with the faults of all of them. Nothing is saved."""
    answers = iter(_compared(caller, [one.definition for one in files if not one.faults]))
    written: list[WorkflowFile] = []
    faults: list[Fault] = []
    for one in files:
        found = None if one.faults else next(answers)
        faults += one.faults if found is None else _in_file(one.path, found.faults)
        if found is not None and not found.faults:
            written.append(WorkflowFile(one.path, found.name or "", one.definition, found.stored, found.same))
    faults += (Fault(f"{path}: $.name", words) for path, words in same_names((one.name, one.path) for one in written))
    if faults:
        raise WorkflowRefused(faults)
    return written


def _compared(caller: Caller, given: Sequence[Mapping[str, Any]]) -> Sequence[ComparedWorkflow]:
    if not given:
        return ()
    answer: ComparedWorkflows = caller.ask(endpoints.compare_workflows, body={"workflows": given})
    return answer.workflows


def _in_file(path: str, faults: Iterable[Fault]) -> list[Fault]:
    return [Fault(f"{path}: {fault.path}", fault.message) for fault in faults]
