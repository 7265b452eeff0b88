"""Workflow files: definitions as teams keep them in git, YAML or JSON, one file each, and the plans they become."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from dispatcher.cli.failures import unreadable
from dispatcher.config import Config
from dispatcher.domain.plans.definition import Known, compile_definition, read_definition
from dispatcher.domain.plans.plan import Plan
from dispatcher.errors import Fault, WorkflowRefused
from dispatcher.store.workflows import New

SUFFIXES = (".yaml", ".yml", ".json")
SUFFIXES_SHOWN = ", ".join(f"*{suffix}" for suffix in SUFFIXES)
# The compiler names its own limit, and more that is wrong, up to here; nobody writes a file of this size by hand.
FILE_BYTES_MAX = 9 * 1024 * 1024


class Written(Struct, frozen=True):
    """A workflow as its file has it."""

    new: New
    path: str

    @property
    def name(self) -> str:
        """What it is called."""
        return self.new.name


def known(config: Config) -> Known:
    """The channels and functions that definitions can name."""
    return Known(config.channels, {name: function.idempotent for name, function in config.functions.items()})


def read(path: Path, shown: str, there: Known) -> Written | list[Fault]:
    """The workflow of a file, or everything that is wrong with it."""
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as fault:
        return [Fault(shown, unreadable(fault) if isinstance(fault, OSError) else "cannot be read: no such path")]
    if len(content) > FILE_BYTES_MAX:
        return [Fault(shown, f"has more than {FILE_BYTES_MAX} bytes")]
    plan = compile_definition(content, there)
    definition = read_definition(content)
    if isinstance(plan, Plan) and not isinstance(definition, list):
        return Written(New(dict(definition), plan), shown)
    found = plan if isinstance(plan, list) else definition if isinstance(definition, list) else []
    return [Fault(f"{shown}: {fault.path}", fault.message) for fault in found]


def read_all(paths: Iterable[tuple[Path, str]], there: Known) -> list[Written]:
    """The workflows of files, each with how it is shown; WorkflowRefused names the faults of all of them."""
    files: list[Written] = []
    faults: list[Fault] = []
    for path, shown in paths:
        found = read(path, shown, there)
        if isinstance(found, Written):
            files.append(found)
        else:
            faults += found
    faults += _twice(files)
    if faults:
        raise WorkflowRefused(faults)
    return files


def _twice(files: Sequence[Written]) -> list[Fault]:
    first: dict[str, str] = {}
    return [
        Fault(f"{file.path}: $.name", f"{first[file.name]} is called {file.name}, too")
        for file in files
        if first.setdefault(file.name, file.path) != file.path
    ]
