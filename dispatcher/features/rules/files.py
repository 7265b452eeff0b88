"""Rule files: YAML or JSON, one rule each."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from dispatcher.base.errors import Fault, RulesRefused
from dispatcher.cli.folders import content_of, same_names
from dispatcher.plans.definition.definition import read_definition

SUFFIXES = (".yaml", ".yml", ".json")
FILE_BYTES_MAX = 1024 * 1024


class RuleFile(Struct, frozen=True):
    """A rule in a file."""

    path: str
    name: str
    content: Mapping[str, Any]


def read_all(paths: Iterable[tuple[Path, str]]) -> list[RuleFile]:
    """Return the rules of files, each under the path that is shown. Raises RulesRefused with the faults of all."""
    found: list[RuleFile] = []
    faults: list[Fault] = []
    for path, shown in paths:
        content = content_of(path, FILE_BYTES_MAX)
        definition = [Fault("$", content)] if isinstance(content, str) else read_definition(content)
        if isinstance(definition, list):
            faults += [Fault(f"{shown}: {one.path}", one.message) for one in definition]
        else:
            name = "/".join(str(definition.get(part)) for part in ("trigger", "channel", "audience"))
            found.append(RuleFile(shown, name, definition))
    faults += [Fault(f"{path}: $", words) for path, words in same_names((one.name, one.path) for one in found)]
    if faults:
        raise RulesRefused(faults)
    return found


def in_files(files: Sequence[RuleFile], faults: Iterable[Fault]) -> list[Fault]:
    """Return the faults of a request with the file that each is in."""
    named: list[Fault] = []
    for one in faults:
        head, _, rest = one.path.removeprefix("$.rules[").partition("]")
        if one.path.startswith("$.rules[") and head.isdecimal() and int(head) < len(files):
            named.append(Fault(f"{files[int(head)].path}: ${rest}", one.message))
        else:
            named.append(one)
    return named
