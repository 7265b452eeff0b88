"""Workflow files: definitions as teams keep them in git, YAML or JSON, one file each."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from dispatcher.cli.failures import unreadable
from dispatcher.cli.session import Session
from dispatcher.domain.plans.definition import read_definition
from dispatcher.doors.doors import Doors
from dispatcher.doors.nouns import Compared, Whose
from dispatcher.errors import Fault, WorkflowRefused

SUFFIXES = (".yaml", ".yml", ".json")
SUFFIXES_SHOWN = ", ".join(f"*{suffix}" for suffix in SUFFIXES)
# The compiler names its own limit, and more that is wrong, up to here; nobody writes a file of this size by hand.
FILE_BYTES_MAX = 9 * 1024 * 1024
# What is compared and saved at once, by every door.
FILES_MAX = 2_000


class Read(Struct, frozen=True):
    """A file as it is: the definition that it has, or why it has none."""

    path: str
    definition: Mapping[str, Any] | None
    faults: Sequence[Fault] = ()


class Written(Struct, frozen=True):
    """A sound workflow as its file has it, beside what is stored under its name."""

    path: str
    definition: Mapping[str, Any]
    compared: Compared

    @property
    def name(self) -> str:
        """What it is called."""
        return self.compared.name


def read(path: Path, shown: str) -> Read:
    """The definition of a file; the faults of one that cannot be read are named as they are shown."""
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as fault:
        words = unreadable(fault) if isinstance(fault, OSError) else "cannot be read: no such path"
        return Read(shown, None, [Fault(shown, words)])
    if len(content) > FILE_BYTES_MAX:
        return Read(shown, None, [Fault(shown, f"has more than {FILE_BYTES_MAX} bytes")])
    definition = read_definition(content)
    if isinstance(definition, list):
        return Read(shown, None, _of(shown, definition))
    return Read(shown, definition)


def read_all(paths: Iterable[tuple[Path, str]]) -> list[Read]:
    """The definitions of files, each with how it is shown."""
    return [read(path, shown) for path, shown in paths]


def compare(session: Session, doors: Doors, whose: Whose, files: Sequence[Read]) -> list[Written]:
    """The workflows of files; WorkflowRefused names the faults of all of them. Nothing is saved."""
    given = [one.definition for one in files if one.definition is not None]
    answers = iter(session.run(lambda: doors.workflows.compare(whose, given)) if given else [])
    written: list[Written] = []
    faults: list[Fault] = []
    for one in files:
        if one.definition is None:
            faults += one.faults
            continue
        compared = next(answers)
        faults += _of(one.path, compared.faults)
        if not compared.faults:
            written.append(Written(one.path, one.definition, compared))
    faults += _twice(written)
    if faults:
        raise WorkflowRefused(faults)
    return written


def _of(path: str, faults: Iterable[Fault]) -> list[Fault]:
    return [Fault(f"{path}: {fault.path}", fault.message) for fault in faults]


def _twice(files: Sequence[Written]) -> list[Fault]:
    first: dict[str, str] = {}
    return [
        Fault(f"{file.path}: $.name", f"{first[file.name]} is called {file.name}, too")
        for file in files
        if first.setdefault(file.name, file.path) != file.path
    ]
