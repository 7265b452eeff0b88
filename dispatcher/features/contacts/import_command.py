"""Importing contacts: every sound line of a file is written, and every other is named with its faults."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from dispatcher.base.errors import Fault
from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.files import opened, tell_stopped
from dispatcher.cli.lines import Line, Lines
from dispatcher.cli.terminal.progress import progress_bar
from dispatcher.features.contacts import endpoints
from dispatcher.features.contacts.file import ContactFile
from dispatcher.http.problems import Problem

COUNTED = ("created", "changed", "same")


def import_contacts(caller: Caller, path: Path, mode: str) -> Counter[str]:
    """Write the contacts of a file, a batch at a time; returns how many were created, changed, same and refused."""
    counts, file, last = Counter(dict.fromkeys((*COUNTED, "refused"), 0)), ContactFile(), 0
    size = path.stat().st_size if path.is_file() else 0
    with opened(path, "FILE") as source:
        # A wrong workspace is refused even if no line is sound.
        caller.workspace()
        lines = Lines(source)
        with progress_bar(caller.voice, "importing", size) as at:
            try:
                for batch in lines.batches():
                    _write(caller, mode, file, batch, counts)
                    last = batch[-1].number
                    if file.columns_are_faulty:
                        break
                    at(lines.bytes_read)
            except BaseException:
                words = "Import the whole file again: what is there stays the same."
                tell_stopped(caller.voice, last, f"{in_words(counts)}. {words}", counts)
                raise
    return counts


def in_words(counts: Mapping[str, int]) -> str:
    """The counts for a sentence."""
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())


def _write(caller: Caller, mode: str, file: ContactFile, batch: Sequence[Line], counts: Counter[str]) -> None:
    """Write a batch, and name the lines that are refused."""
    refused: dict[int, Sequence[Fault]] = {}
    sound: dict[int, Mapping[str, Any]] = {}
    for line in batch:
        found = file.read(line)
        if isinstance(found, list):
            refused[line.number] = found
            if file.columns_are_faulty:
                break
        elif found is not None:
            sound[line.number] = found
    numbers = iter(sound)
    parts = caller.in_parts(endpoints.import_contacts, "contacts", [*sound.values()], mode=mode) if sound else ()
    for part, answer in parts:
        own = list(islice(numbers, len(part)))
        if isinstance(answer, Problem):
            refused[own[0]] = [*_faults(0, answer.faults)] or [Fault("line", answer.detail)]
        else:
            counts.update({name: getattr(answer, name) for name in COUNTED})
            refused |= {own[one.number]: [*_faults(one.number, one.faults)] for one in answer.refused}
    counts["refused"] += len(refused)
    for number, faults in sorted(refused.items()):
        words = "".join(f"\n  {fault}" for fault in faults)
        caller.voice.note(f"line {number}: refused{words}", {"line": number, "faults": faults})


def _faults(number: int, faults: Sequence[Any]) -> Iterator[Fault]:
    """The faults of one contact of a request, with paths that begin at the contact."""
    for one in msgspec.convert(faults, list[Fault], from_attributes=True):
        yield Fault(one.path.replace(f"$.contacts[{number}]", "$", 1), one.message)
