"""Sequence files: YAML or JSON, one definition each, compared with what is stored."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from dispatcher.base.errors import Fault, WorkflowRefused
from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.folders import content_of, same_names
from dispatcher.features.sequences import endpoints
from dispatcher.features.sequences.models import ComparedSequence, ComparedSequences
from dispatcher.plans.definition.definition import read_definition

SUFFIXES = (".yaml", ".yml", ".json")
FILE_BYTES_MAX = 1_048_576


class SequenceFile(Struct, frozen=True):
    """A valid definition in a file, and how it compares with what is stored under its name."""

    path: str
    name: str
    definition: dict[str, Any]
    stored: ComparedSequence


def read_all(caller: Caller, paths: Sequence[tuple[Path, str]]) -> list[SequenceFile]:
    """Return the sequences of files. Raises WorkflowRefused with the faults of all of them. Nothing is saved."""
    found: list[tuple[str, dict[str, Any]]] = []
    faults: list[Fault] = []
    for path, shown in paths:
        content = content_of(path, FILE_BYTES_MAX)
        definition = [Fault("$", content)] if isinstance(content, str) else read_definition(content)
        if isinstance(definition, list):
            faults += (Fault(f"{shown}: {one.path}", one.message) for one in definition)
        else:
            found.append((shown, dict(definition)))
    compared: list[ComparedSequence] = []
    if found:
        answer: ComparedSequences = caller.ask(
            endpoints.compare_sequences, body={"sequences": [one for _, one in found]}
        )
        compared = list(answer.sequences)
    for (shown, _), one in zip(found, compared, strict=True):
        faults += (Fault(f"{shown}: {fault.path}", fault.message) for fault in one.faults)
    named = [(str(one.get("name")), shown) for shown, one in found]
    faults += (Fault(f"{path}: $.name", words) for path, words in same_names(named))
    if faults:
        raise WorkflowRefused(faults)
    return [
        SequenceFile(shown, str(one["name"]), one, stored) for (shown, one), stored in zip(found, compared, strict=True)
    ]
